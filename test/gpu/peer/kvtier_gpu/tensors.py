"""Shared GPU memory as torch tensors. The one module that needs torch."""

import ctypes

import torch

from .driver import Driver
from .shapes import KvShape


class _Memory:
    """Memory as the CUDA array interface describes it."""

    def __init__(self, pointer: int, count: int):
        self.__cuda_array_interface__ = {
            'shape': (count,),
            'typestr': '|u1',
            'data': (pointer, False),
            'version': 3,
            'strides': None,
        }


def bytes_at(driver: Driver, pointer: int, count: int) -> torch.Tensor:
    """A view: whoever owns the memory keeps it as long as the tensor is used."""
    if driver.is_stand_in:
        memory = (ctypes.c_uint8 * count).from_address(driver.host_address(pointer))
        return torch.frombuffer(memory, dtype=torch.uint8)
    return torch.as_tensor(_Memory(pointer, count), device='cuda')


def new_pool(driver: Driver, count: int) -> tuple[int, torch.Tensor]:
    """
    Memory of this process that can be shared: torch's on a GPU, where its allocator must not use expandable segments.
    The tensor owns it there.
    """
    if driver.is_stand_in:
        pointer = driver.allocate(count)
        return pointer, bytes_at(driver, pointer, count)
    memory = torch.empty(count, dtype=torch.uint8, device='cuda')
    return memory.data_ptr(), memory


def attached_view(memory: torch.Tensor, shape: KvShape, block_tokens: int) -> torch.Tensor:
    """[layers, kv, blocks, block tokens, heads, head size] of an attached cache."""
    sizes = (shape.layers, shape.kv, -1, block_tokens, shape.heads, shape.head_size)
    return memory.view(getattr(torch, shape.dtype)).view(sizes)


def managed_view(memory: torch.Tensor, shape: KvShape, tensor_shape: list[int]) -> torch.Tensor:
    """The same of the engine's pool, in which a block has all layers."""
    return memory.view(getattr(torch, shape.dtype)).view(tensor_shape).permute(1, 2, 0, 3, 4, 5)
