"""What `share` and `pool_of` say of memory of several kinds, for their tests. Usage: shares.py LIBCUDA. Prints JSON."""

import json
import sys

from kvtier_gpu import Driver, DriverError, pool_of


class Tensor:
    """As much of a torch tensor as `pool_of` asks for; 2 bytes an element."""

    def __init__(self, pointer, shape, strides):
        self.shape = shape
        self._pointer = pointer
        self._strides = strides

    def data_ptr(self):
        return self._pointer

    def element_size(self):
        return 2

    def stride(self):
        return self._strides


def main():
    driver = Driver(sys.argv[1])
    pointer = driver.allocate(1 << 20)
    result = {'shareable': driver.is_shareable(pointer)}
    cases = {
        'keysThenValues': ((2, 10, 16, 4, 8), (5120, 512, 32, 8, 1)),
        'headsBeforeTokens': ((2, 10, 16, 4, 8), (5120, 512, 8, 128, 1)),
        'latent': ((10, 16, 8), (128, 8, 1)),
        'blocksFirst': ((10, 2, 16, 4, 8), (1024, 512, 32, 8, 1)),
        'gaps': ((10, 16, 8), (256, 16, 1)),
        'noBlocks': ((3, 11, 16, 8), (1408, 128, 8, 1)),
    }
    for name, (shape, strides) in cases.items():
        try:
            pool = pool_of(driver, [Tensor(pointer, shape, strides), Tensor(pointer + 65536, shape, strides)], 10)
            parts = [(part['offset'], part['bytes']) for part in pool['allocations']]
            result[name] = [parts, pool['planes'], pool['block_stride'], pool['block_bytes']]
        except (DriverError, ValueError) as error:
            result[name] = str(error)
    print(json.dumps(result))


if __name__ == '__main__':
    main()
