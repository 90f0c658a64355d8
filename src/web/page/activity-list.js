import { byId, element, setText } from './dom.js'

/**
 * One record of `GET /v1/activities`, as far as it is shown.
 *
 * @typedef {object} Activity
 * @property {string} activityId
 * @property {string} action
 * @property {string} description
 * @property {string} occurredAt
 * @property {string} actorDisplay
 */

let shown = ''

/**
 * Shows the newest acts, newest first. Nothing is touched while nothing is new.
 *
 * @param {readonly Activity[]} activities
 */
export function showActivities(activities) {
  setText(byId('activities-note'), activities.length === 0 ? 'None yet.' : '')
  const ids = activities.map((one) => one.activityId).join()
  if (ids === shown) return
  shown = ids
  byId('activities').replaceChildren(...activities.map(itemOf))
}

/**
 * Says instead why there is no list.
 *
 * @param {string} reason
 */
export function showNoActivities(reason) {
  setText(byId('activities-note'), reason)
}

/** @param {Activity} activity */
function itemOf({ action, description, occurredAt, actorDisplay }) {
  const time = new Date(occurredAt).toLocaleString([], { hour12: false })
  const who = actorDisplay === '' ? '' : `, ${actorDisplay}`
  const what = action
    .replace(/^ACTIVITY_ACTION_/, '')
    .toLowerCase()
    .replaceAll('_', ' ')
  return element('li', {}, [
    element('div', { text: description === '' ? what : description }),
    element('div', { class: 'note' }, [
      element('time', { datetime: occurredAt, text: time }),
      document.createTextNode(`, ${what}${who}`),
    ]),
  ])
}
