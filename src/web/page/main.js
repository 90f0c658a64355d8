/** @import { Overview } from '../overview.ts' */
/** @import { Activity } from './activity-list.js' */
/** @import { AdapterDetail } from './adapter-list.js' */
import { showActivities, showNoActivities } from './activity-list.js'
import { AdapterList } from './adapter-list.js'
import { Cards } from './cards.js'
import { byId, setText } from './dom.js'
import { EngineApi, Refusal, Silence } from './engine-api.js'
import { History } from './history.js'
import { timeText } from './number-text.js'
import { Poller } from './poller.js'
import { followTheme } from './theme.js'
import { TokenDialog } from './token-dialog.js'

const INTERVAL_MS = 2_000
/** What changes seldom, or asks the engine itself, is asked for in one of so many cycles. */
const DETAIL_CYCLES = 5
const ACTIVITIES_SHOWN = 10

const api = new EngineApi()
const dialog = new TokenDialog()
const history = new History()
const cards = new Cards()
const adapters = new AdapterList(changeAdapter)
const poller = new Poller(INTERVAL_MS, cycle)
let cyclesToDetails = 0
let lastAnswerMs = 0

followTheme(byId('theme'), () => cards.redraw())
byId('token').addEventListener('click', () => askForToken('Administration needs a token of scope admin.'))
poller.go()

async function cycle() {
  try {
    const overview = /** @type {Overview} */ (await api.get('v1/overview'))
    lastAnswerMs = Date.now()
    if (byId('state').dataset.state !== 'live') cyclesToDetails = 0
    setState('live', 'Live')
    showOverview(overview)
    if (cyclesToDetails <= 0) await details()
    cyclesToDetails -= 1
  } catch (error) {
    if (error instanceof Refusal && error.needsToken) await unlock(error)
    else setState('stopped', failureText(error))
  }
}

/** @param {Overview} overview */
function showOverview(overview) {
  const { version, started_at: startedAt, device } = overview
  const gpu = device === null ? '' : device.kind === 'simulated' ? ', simulated GPU' : `, ${device.name}`
  setText(byId('about'), `${version}, up since ${new Date(startedAt).toLocaleString([], { hour12: false })}${gpu}`)
  history.add(overview, Date.now())
  cards.show(overview, history)
  adapters.show(overview.adapters)
}

/** A part that is refused leaves the others alone. */
async function details() {
  cyclesToDetails = DETAIL_CYCLES
  await unlessRefused(
    async () => {
      const listed = /** @type {{ adapters: AdapterDetail[] }} */ (await api.get('v1/l2/adapters'))
      adapters.setDetails(listed.adapters)
    },
    () => adapters.setDetails([]),
  )
  await unlessRefused(async () => {
    const log = /** @type {{ activities: Activity[] }} */ (await api.get(`v1/activities?size=${ACTIVITIES_SHOWN}`))
    showActivities(log.activities)
  }, showNoActivities)
}

/**
 * @param {() => Promise<void>} part
 * @param {(reason: string) => void} onRefused
 */
async function unlessRefused(part, onRefused) {
  try {
    await part()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    onRefused(error.message)
  }
}

/**
 * The engine answers nobody without a token: nothing is asked until there is one.
 *
 * @param {Refusal} refusal
 */
async function unlock(refusal) {
  setState('locked', 'Waiting for a token')
  poller.hold()
  if (!dialog.isOpen) await askForToken(refusal.message)
}

/** @param {string} reason */
async function askForToken(reason) {
  const { token, isForgotten } = await dialog.ask(reason, api.hasToken)
  if (token !== null || isForgotten) {
    api.useToken(token)
    cyclesToDetails = 0
    poller.go()
  }
}

/**
 * Drains an adapter or takes that back; asks for a token until one is good enough or the user gives up.
 *
 * @param {string} name
 * @param {'drain' | 'undrain'} act
 */
async function changeAdapter(name, act) {
  const path = `v1/l2/adapters/${encodeURIComponent(name)}/${act}`
  let candidate = /** @type {string | undefined} */ (undefined)
  for (;;) {
    try {
      await api.post(path, candidate)
      if (candidate !== undefined) api.useToken(candidate)
      setText(byId('adapters-note'), act === 'drain' ? `${name} drains.` : `${name} is active again.`)
      cyclesToDetails = 0
      poller.go()
      return
    } catch (error) {
      if (!(error instanceof Refusal && error.needsToken)) {
        const reason = error instanceof Refusal ? error.message : 'the engine does not answer'
        setText(byId('adapters-note'), `${name} was not changed: ${reason}`)
        return
      }
      const { token, isForgotten } = await dialog.ask(error.message, api.hasToken)
      if (isForgotten) api.useToken(null)
      if (token === null) return
      candidate = token
    }
  }
}

/**
 * @param {'live' | 'stopped' | 'locked'} state
 * @param {string} text
 */
function setState(state, text) {
  byId('state').dataset.state = state
  setText(byId('state-text'), text)
  document.querySelector('main')?.classList.toggle('stale', state !== 'live')
}

/** @param {unknown} error */
function failureText(error) {
  const since = lastAnswerMs === 0 ? '' : ` since ${timeText(lastAnswerMs)}`
  if (error instanceof Refusal) return `The engine refuses${since}: ${error.message}`
  if (error instanceof Silence) return `The engine does not answer${since}; asking again every 2 s`
  reportError(error)
  return 'This page failed; the console of the browser has the details'
}
