"""What torch itself hands out for a tensor that is shared, beside the handle that the driver gives.
Usage: torch_handle.py [LIBCUDA]. Prints one JSON object."""

import importlib.util
import json
import sys

from kvtier_gpu import Driver


def main():
    driver = Driver(sys.argv[1] if len(sys.argv) > 1 else '')
    if driver.is_stand_in or importlib.util.find_spec('torch') is None:
        reason = 'the driver is a stand-in' if driver.is_stand_in else 'this Python has no torch'
        print(json.dumps({'check': 'torchHandle', 'skipped': reason}))
        return
    import torch

    spare = torch.zeros(3 << 20, dtype=torch.uint8, device='cuda')
    tensor = torch.zeros(64 << 20, dtype=torch.uint8, device='cuda')[1 << 20 :]
    handle, offset = driver.share(tensor.data_ptr())
    # device, handle, bytes, offset, and what counts references
    given = tensor.untyped_storage()._share_cuda_()
    whole = bytes(given[1]).hex()
    result = {
        'check': 'torchHandle',
        'torch': torch.__version__,
        'allocator': torch.cuda.memory.get_allocator_backend(),
        'bytesOfHandle': len(whole) // 2,
        'endsWithTheDrivers': whole.endswith(handle),
        'head': whole[: len(whole) - len(handle)],
        'storageBytes': given[2],
        'storageOffset': given[3],
        'tensorOffset': offset,
        'shareable': driver.is_shareable(spare.data_ptr()),
    }
    result['fine'] = result['endsWithTheDrivers'] and given[3] + (1 << 20) == offset
    print(json.dumps(result))


if __name__ == '__main__':
    main()
