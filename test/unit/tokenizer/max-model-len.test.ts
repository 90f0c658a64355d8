import { expect, it } from 'vitest'
import { maxModelLen } from '../../../src/tokenizer/max-model-len.ts'

it.each([
  ['config.json', { max_position_embeddings: 4096 }, {}, 4096],
  ['the lesser of both files', { max_position_embeddings: 4096 }, { model_max_length: 2048 }, 2048],
  ['config.json before a sentinel', { n_positions: 1024 }, { model_max_length: 1e30 }, 1024],
  ['the tokenizer where there is no config.json', null, { model_max_length: 512 }, 512],
  ['nothing for a sentinel', null, { model_max_length: 1e27 }, null],
  ['nothing for nothing', {}, {}, null],
  ['nothing for what is no length', { max_position_embeddings: -1 }, { model_max_length: '512' }, null],
  ['the text part of a model of several', { text_config: { max_position_embeddings: 8192 } }, {}, 8192],
  [
    'a length stretched by YaRN',
    {
      max_position_embeddings: 4096,
      rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 4096 },
    },
    {},
    16_384,
  ],
  [
    'a length with a linear factor',
    { max_position_embeddings: 4096, rope_scaling: { type: 'linear', factor: 2.5 } },
    { model_max_length: 4096 },
    10_240,
  ],
  [
    'a factor of null for none',
    { max_position_embeddings: 4096, rope_parameters: { rope_type: 'dynamic', factor: null } },
    {},
    4096,
  ],
  [
    "Llama 3's length, which is told",
    { max_position_embeddings: 131_072, rope_scaling: { rope_type: 'llama3', factor: 8 } },
    {},
    131_072,
  ],
  [
    "Gemma 3's, which is told as well",
    {
      model_type: 'gemma3',
      text_config: { max_position_embeddings: 131_072, rope_scaling: { rope_type: 'linear', factor: 8 } },
    },
    {},
    131_072,
  ],
  [
    'the length before LongRoPE',
    { max_position_embeddings: 131_072, original_max_position_embeddings: 4096, rope_scaling: { type: 'longrope' } },
    {},
    4096,
  ],
])('takes %s', (_what, config, tokenizerConfig, length) => {
  expect(maxModelLen(config, tokenizerConfig)).toBe(length)
})
