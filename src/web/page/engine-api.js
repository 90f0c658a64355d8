const KEY = 'kvtier-token'
/** What a header can carry at all. */
const TOKEN_FORM = /^[\w.~+/=-]+$/
const TIMEOUT_MS = 5_000

/** The engine said no. `status` and the words are its own. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message)
    this.status = status
  }

  /** Whether a token, or another one, would help. */
  get needsToken() {
    return this.status === 401 || this.status === 403
  }
}

/** Nobody answered. */
export class Silence extends Error {}

/** The engine's HTTP API as the page asks it: every failure is a `Refusal` or a `Silence`. */
export class EngineApi {
  #token = readToken()

  get hasToken() {
    return this.#token !== null
  }

  /**
   * Kept for this tab only.
   *
   * @param {string | null} token
   */
  useToken(token) {
    this.#token = token
    try {
      if (token === null) sessionStorage.removeItem(KEY)
      else sessionStorage.setItem(KEY, token)
    } catch {} // storage may be forbidden: the token then lasts as long as the page
  }

  /**
   * @template Answer
   * @param {string} path relative to the page.
   * @returns {Promise<Answer>}
   */
  get(path) {
    return this.#ask('GET', path, this.#token)
  }

  /**
   * @param {string} path
   * @param {string} [candidate] a token that is not kept yet.
   * @returns {Promise<unknown>}
   */
  post(path, candidate) {
    return this.#ask('POST', path, candidate ?? this.#token)
  }

  /**
   * @template Answer
   * @param {string} method
   * @param {string} path
   * @param {string | null} token
   * @returns {Promise<Answer>}
   */
  async #ask(method, path, token) {
    /** @type {Record<string, string>} */
    const headers = token === null ? {} : { authorization: `Bearer ${token}` }
    if (token !== null && !TOKEN_FORM.test(token)) throw new Refusal(401, 'this is no token: tokens begin with kvt_')
    const body = method === 'POST' && path.endsWith('/drain') ? '{}' : undefined
    if (body !== undefined) headers['content-type'] = 'application/json'
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const request = fetch(path, { method, headers, signal, credentials: 'omit', ...(body && { body }) })
    const answer = await request.catch((error) => {
      throw new Silence('the engine does not answer', { cause: error })
    })
    const told = await answer.json().catch(() => null)
    if (answer.ok) return told
    throw new Refusal(answer.status, told?.error?.message ?? `the engine answers ${answer.status}`)
  }
}

/** @returns {string | null} */
function readToken() {
  try {
    return sessionStorage.getItem(KEY)
  } catch {
    return null
  }
}
