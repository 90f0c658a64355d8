"""Greedy generation by vLLM on the CPU with a tiny, randomly initialised model; with or without the engine's cache.

    python vllm_generate.py MODEL_FOLDER [HOST:PORT]

Three requests: one, the same again, and one that shares its first 1024 tokens. With an address, vLLM runs its own
LMCacheMPConnector, set up as the README says. The model is made in the folder by the first run. Prints one JSON line:
generated tokens and cached tokens of each request, and vLLM's own counters of prefix caches.
"""

import json
import os
import sys

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_CPU_KVCACHE_SPACE='1', VLLM_CPU_OMP_THREADS_BIND='nobind',
                  VLLM_NO_USAGE_STATS='1', HF_HUB_OFFLINE='1', OMP_NUM_THREADS='2', LMCACHE_LOG_LEVEL='WARNING')

import importlib.metadata

import torch
import vllm.triton_utils.dispatcher
from transformers import LlamaConfig, LlamaForCausalLM
from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig

# vLLM 0.32.0 trips over a library that lmcache imports: the `__dict__` of an object of llvmlite is no dict.
vllm.triton_utils.dispatcher.vars = lambda value: found if isinstance(found := vars(value), dict) else {}

VOCABULARY, PREFIX, REST, GENERATED = 1024, 1024, 40, 24


def model_in(folder):
    if not os.path.exists(os.path.join(folder, 'config.json')):
        torch.manual_seed(7)
        config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                             num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=4096,
                             initializer_range=0.15, bos_token_id=1, eos_token_id=2)
        LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


def connector(address):
    if address is None:
        return {}
    host, port = address.split(':')
    extra = {'lmcache.mp.host': f'tcp://{host}', 'lmcache.mp.port': int(port),
             'lmcache.mp.mp_transfer_mode': 'engine_driven', 'lmcache.mp.mq_timeout': 20}
    return {'kv_transfer_config': KVTransferConfig(kv_connector='LMCacheMPConnector', kv_role='kv_both',
                                                   kv_connector_extra_config=extra)}


def main(folder, address=None):
    llm = LLM(model=model_in(folder), skip_tokenizer_init=True, dtype='float32', enforce_eager=True, block_size=32,
              max_model_len=2048, max_num_seqs=2, enable_prefix_caching=False, disable_log_stats=False, seed=0,
              **connector(address))
    generator = torch.Generator().manual_seed(3)
    prefix, *rests = (torch.randint(3, VOCABULARY, (count,), generator=generator).tolist()
                      for count in (PREFIX, REST, REST))
    greedy = SamplingParams(temperature=0, max_tokens=GENERATED, ignore_eos=True, detokenize=False)
    requests = []
    for rest in (rests[0], rests[0], rests[1]):
        answer = llm.generate([{'prompt_token_ids': prefix + rest}], greedy, use_tqdm=False)[0]
        requests.append({'tokens': list(answer.outputs[0].token_ids), 'cached': answer.num_cached_tokens})
    counters = {metric.name: metric.value for metric in llm.get_metrics() if 'prefix_cache' in metric.name}
    versions = {name: importlib.metadata.version(name) for name in ('vllm-cpu', 'lmcache', 'torch')}
    print(json.dumps({'requests': requests, 'counters': counters, 'versions': versions}), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
    os._exit(0)  # heartbeat threads would keep the process
