import { byId, setText } from './dom.js'

/** The dialog that asks for a token. One question at a time. */
export class TokenDialog {
  #dialog = /** @type {HTMLDialogElement} */ (byId('token-dialog'))
  #value = /** @type {HTMLInputElement} */ (byId('token-value'))
  #forget = byId('token-forget')
  #answer = /** @type {string | null} */ (null)
  #isForgotten = false

  constructor() {
    byId('token-form').addEventListener('submit', (event) => {
      event.preventDefault()
      this.#answer = this.#value.value.trim() || null
      this.#dialog.close()
    })
    byId('token-cancel').addEventListener('click', () => this.#dialog.close())
    this.#forget.addEventListener('click', () => {
      this.#isForgotten = true
      this.#dialog.close()
    })
  }

  get isOpen() {
    return this.#dialog.open
  }

  /**
   * @param {string} reason why a token is asked for.
   * @param {boolean} hasToken there is one to forget.
   * @returns {Promise<{ token: string | null, isForgotten: boolean }>} token is null when none was given.
   */
  ask(reason, hasToken) {
    setText(byId('token-reason'), reason)
    this.#forget.hidden = !hasToken
    this.#value.value = ''
    this.#answer = null
    this.#isForgotten = false
    this.#dialog.showModal()
    this.#value.focus()
    return new Promise((resolve) => {
      const onClose = () => {
        this.#value.value = ''
        resolve({ token: this.#answer, isForgotten: this.#isForgotten })
      }
      this.#dialog.addEventListener('close', onClose, { once: true })
    })
  }
}
