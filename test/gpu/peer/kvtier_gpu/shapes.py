"""What models keep of a token."""

from dataclasses import dataclass

ELEMENT_BYTES = {'float32': 4, 'bfloat16': 2, 'float16': 2, 'uint8': 1}


@dataclass(frozen=True)
class KvShape:
    """`kv` is 2 for K before V, 1 for one latent vector."""

    dtype: str
    layers: int
    kv: int
    heads: int
    head_size: int

    @property
    def token_bytes(self) -> int:
        return self.plane_token_bytes * self.layers * self.kv

    @property
    def plane_token_bytes(self) -> int:
        """Of K or V of one layer."""
        return ELEMENT_BYTES[self.dtype] * self.heads * self.head_size

    def as_body(self) -> dict:
        return {
            'dtype': self.dtype,
            'layers': self.layers,
            'kv': self.kv,
            'heads': self.heads,
            'head_size': self.head_size,
        }


LLAMA_3_1_8B = KvShape('bfloat16', layers=32, kv=2, heads=8, head_size=128)
DEEPSEEK_MLA = KvShape('bfloat16', layers=61, kv=1, heads=1, head_size=576)
