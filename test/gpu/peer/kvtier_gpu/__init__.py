"""The GPU side of kvtier for an inference process: attached mode (its own KV blocks, copied by the engine) and managed
mode (it works in blocks of the engine's pool). Needs the NVIDIA driver and nothing but Python's library; torch is used
where it is there, to see the memory as tensors (`tensors`)."""

from .attached import AttachedCache, AttachedPool
from .driver import Driver, DriverError
from .engine import Engine, EngineError
from .managed import ManagedCache
from .paged import pool_of
from .shapes import DEEPSEEK_MLA, LLAMA_3_1_8B, KvShape

__all__ = [
    'AttachedCache',
    'AttachedPool',
    'DEEPSEEK_MLA',
    'Driver',
    'DriverError',
    'Engine',
    'EngineError',
    'KvShape',
    'LLAMA_3_1_8B',
    'ManagedCache',
    'pool_of',
]
