"""A small decoder (RMS norm, rotary positions, grouped attention, gated MLP) with random weights of a seed, whose KV lies
in a paged cache."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from kvtier_gpu import KvShape


@dataclass(frozen=True)
class DecoderSize:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    mlp: int
    vocabulary: int
    dtype: str

    @property
    def head_size(self):
        return self.hidden // self.heads

    @property
    def kv_shape(self):
        return KvShape(self.dtype, self.layers, 2, self.kv_heads, self.head_size)


SIZES = {
    'small': DecoderSize(layers=4, hidden=256, heads=8, kv_heads=2, mlp=704, vocabulary=4096, dtype='float32'),
    'llama-3.1-8b': DecoderSize(
        layers=32, hidden=4096, heads=32, kv_heads=8, mlp=14336, vocabulary=128256, dtype='bfloat16'
    ),
}


class Decoder:
    def __init__(self, size: DecoderSize, device: str, seed: int = 1):
        self.size = size
        self._device = device
        generator = torch.Generator(device).manual_seed(seed)
        dtype = getattr(torch, size.dtype)
        kv_width = size.kv_heads * size.head_size

        def weight(rows, columns):
            made = torch.randn(rows, columns, generator=generator, device=device, dtype=torch.float32)
            return (made * columns**-0.5).to(dtype)

        self._embedding = weight(size.vocabulary, size.hidden)
        self._layers = [
            {
                'q': weight(size.hidden, size.hidden),
                'k': weight(kv_width, size.hidden),
                'v': weight(kv_width, size.hidden),
                'o': weight(size.hidden, size.hidden),
                'gate': weight(size.mlp, size.hidden),
                'up': weight(size.mlp, size.hidden),
                'down': weight(size.hidden, size.mlp),
            }
            for _ in range(size.layers)
        ]

    @torch.inference_mode()
    def run(self, tokens, start, cache, blocks):
        """Logits of the last of `tokens`, which stand at `start`. The KV before is in the cache; theirs is put there."""
        size = self.size
        count = len(tokens)
        end = start + count
        block_tokens = cache.shape[3]
        positions = torch.arange(start, end, device=self._device)
        slots = torch.tensor(blocks, device=self._device)
        at = slots[positions // block_tokens], positions % block_tokens
        used = slots[: -(-end // block_tokens)]
        mask = torch.arange(end, device=self._device)[None, :] <= positions[:, None]
        x = self._embedding[torch.tensor(tokens, device=self._device)]
        for layer, weights in enumerate(self._layers):
            y = _norm(x)
            q = _rotate((y @ weights['q'].T).view(count, size.heads, -1), positions)
            cache[layer, 0][at] = _rotate((y @ weights['k'].T).view(count, size.kv_heads, -1), positions)
            cache[layer, 1][at] = (y @ weights['v'].T).view(count, size.kv_heads, -1)
            k, v = (cache[layer, kv][used].flatten(0, 1)[:end].transpose(0, 1) for kv in (0, 1))
            groups = size.heads // size.kv_heads
            k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
            seen = F.scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=mask)
            x = x + seen.transpose(0, 1).reshape(count, -1) @ weights['o'].T
            y = _norm(x)
            x = x + (F.silu(y @ weights['gate'].T) * (y @ weights['up'].T)) @ weights['down'].T
        return (_norm(x[-1:]) @ self._embedding.T)[0].float().cpu()


def _norm(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def _rotate(x, positions):
    half = x.shape[-1] // 2
    rates = 500_000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = positions[:, None].float() * rates
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half].float(), x[..., half:].float()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
