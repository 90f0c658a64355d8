"""Paged KV tensors of an inference server, as an engine wants to be told where their blocks lie."""

from .driver import Driver


def pool_of(driver: Driver, tensors, blocks: int) -> dict:
    """
    The body of an attach for tensors of `blocks` blocks each: one a layer, as vLLM has them, or one of all layers. The
    axis of blocks is the first or, behind that of K and V, the second. Only `data_ptr`, `shape`, `stride` and
    `element_size` of a tensor are asked. Raises ValueError when blocks are not whole ranges of one size.
    """
    allocations, planes, sizes, start = [], [], set(), 0
    for tensor in tensors:
        axis = next((axis for axis in (0, 1) if tensor.shape[axis] == blocks), None)
        if axis is None:
            raise ValueError(f'a tensor of shape {tuple(tensor.shape)} has no axis of {blocks} blocks')
        strides = [stride * tensor.element_size() for stride in tensor.stride()]
        block_bytes = tensor.element_size()
        for size, stride in sorted(zip(tensor.shape[axis + 1 :], strides[axis + 1 :]), key=lambda pair: pair[1]):
            if size > 1 and stride != block_bytes:
                raise ValueError(f'blocks of a tensor of shape {tuple(tensor.shape)} have gaps')
            block_bytes *= size
        sizes.add((block_bytes, strides[axis]))
        count = tensor.shape[0] if axis == 1 else 1
        planes += [start + plane * strides[0] for plane in range(count)]
        handle, offset = driver.share(tensor.data_ptr())
        size = (count - 1) * strides[0] * (axis == 1) + (blocks - 1) * strides[axis] + block_bytes
        allocations.append({'ipc_handle': handle, 'offset': offset, 'bytes': size})
        start += size
    if len(sizes) != 1:
        raise ValueError(f'blocks differ from tensor to tensor: {sorted(sizes)}')
    block_bytes, block_stride = sizes.pop()
    return {'allocations': allocations, 'planes': planes, 'block_stride': block_stride, 'block_bytes': block_bytes}
