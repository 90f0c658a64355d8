/** @import { AdapterOverview } from '../overview.ts' */
import { byId, element, setText } from './dom.js'
import { bytesText, countText } from './number-text.js'

/**
 * What `GET /v1/l2/adapters` knows besides.
 *
 * @typedef {object} AdapterDetail
 * @property {string} name
 * @property {string} type
 * @property {string} last_error
 * @property {{ phase: string, remaining_ms: number } | null} drain
 */

const STATE_CLASSES = { active: 'good', draining: 'wait', failed: 'bad' }
const CIRCUIT_TEXTS = { closed: 'circuit closed', half_open: 'circuit half open', open: 'circuit open' }
const FIELDS = ['In flight', 'Held', 'Objects', 'Stored', 'Loaded', 'Failed']

/** The L2 adapters, each with a button that drains it or takes that back. Rows keep their elements, and so the focus. */
export class AdapterList {
  #rows = /** @type {Map<string, AdapterRow>} */ (new Map())
  #details = /** @type {readonly AdapterDetail[]} */ ([])
  #onAct

  /** @param {(name: string, act: 'drain' | 'undrain') => Promise<void>} onAct never rejects. */
  constructor(onAct) {
    this.#onAct = onAct
  }

  /** @param {readonly AdapterDetail[]} details */
  setDetails(details) {
    this.#details = details
  }

  /** @param {readonly AdapterOverview[]} adapters */
  show(adapters) {
    for (const [name, row] of this.#rows) {
      if (adapters.some((one) => one.name === name)) continue
      row.item.remove()
      this.#rows.delete(name)
    }
    for (const adapter of adapters) {
      let row = this.#rows.get(adapter.name)
      if (row === undefined) {
        row = new AdapterRow(adapter.name, this.#onAct)
        this.#rows.set(adapter.name, row)
        byId('adapters').append(row.item)
      }
      row.show(
        adapter,
        this.#details.find((one) => one.name === adapter.name),
      )
    }
    if (adapters.length === 0) setText(byId('adapters-note'), 'There is none: what L1 evicts is gone.')
  }
}

class AdapterRow {
  item
  #title = element('h3')
  #state = element('span', { class: 'word' })
  #circuit = element('span', { class: 'word' })
  #button = element('button', { type: 'button' })
  #values = FIELDS.map(() => element('dd'))
  #note = element('p', { class: 'note' })
  #act = /** @type {'drain' | 'undrain'} */ ('drain')

  /**
   * @param {string} name
   * @param {(name: string, act: 'drain' | 'undrain') => Promise<void>} onAct
   */
  constructor(name, onAct) {
    const facts = FIELDS.map((field, at) =>
      element('div', {}, [element('dt', { text: field }), /** @type {Node} */ (this.#values[at])]),
    )
    const words = element('p', {}, [this.#state, document.createTextNode(', '), this.#circuit])
    this.item = element('li', { class: 'adapter' }, [
      this.#title,
      this.#button,
      words,
      element('dl', {}, facts),
      this.#note,
    ])
    this.#button.addEventListener('click', async () => {
      if (this.#button.getAttribute('aria-disabled') === 'true') return
      this.#button.setAttribute('aria-disabled', 'true')
      await onAct(name, this.#act)
      this.#button.removeAttribute('aria-disabled')
    })
  }

  /**
   * @param {AdapterOverview} now
   * @param {AdapterDetail | undefined} detail
   */
  show(now, detail) {
    setText(this.#title, detail === undefined ? now.name : `${now.name} (${detail.type})`)
    setText(this.#state, now.state)
    this.#state.className = `word ${STATE_CLASSES[now.state]}`
    setText(this.#circuit, CIRCUIT_TEXTS[now.circuit])
    this.#circuit.className = `word ${now.circuit === 'closed' ? 'good' : 'bad'}`
    this.#act = now.state === 'draining' ? 'undrain' : 'drain'
    this.#button.hidden = now.state === 'failed'
    const verb = this.#act === 'drain' ? 'Drain' : 'Undrain'
    setText(this.#button, verb)
    this.#button.setAttribute('aria-label', `${verb} ${now.name}`)
    const limit = now.capacity_bytes > 0 ? ` of ${bytesText(now.capacity_bytes)}` : ''
    const texts = [
      `${now.inflight_stores} stores, ${now.inflight_loads} loads`,
      `${bytesText(now.usage_bytes)}${limit}`,
      countText(now.objects),
      countText(now.stored_objects),
      countText(now.loaded_objects),
      countText(now.failed_objects),
    ]
    this.#values.forEach((value, at) => {
      setText(value, texts[at] ?? '')
    })
    setText(this.#note, noteOf(now, detail))
  }
}

/**
 * @param {AdapterOverview} now
 * @param {AdapterDetail | undefined} detail
 */
function noteOf(now, detail) {
  const drain = now.state === 'draining' ? drainText(detail?.drain?.phase) : ''
  const error = detail === undefined || detail.last_error === '' ? '' : `Last error: ${detail.last_error}`
  return [drain, error].filter((text) => text !== '').join(' ')
}

/** @param {string | undefined} phase */
function drainText(phase) {
  if (phase === 'drained') return 'Drained: it can be removed.'
  if (phase === 'deadline_passed') return 'The deadline of the drain has passed; work is still in flight.'
  return 'It gets no new work; what is in flight is finished.'
}
