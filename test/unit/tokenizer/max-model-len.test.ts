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
])('takes %s', (_what, config, tokenizerConfig, length) => {
  expect(maxModelLen(config, tokenizerConfig)).toBe(length)
})
