/**
 * The element of this id in the page.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element ${id}`)
  return found
}

/**
 * A new element. Text is put in as text, never as HTML: names of models and adapters come from clients.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {{ class?: string, text?: string } & Record<string, string>} [attributes]
 * @param {readonly Node[]} [children]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, { text, ...attributes } = {}, children = []) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  if (text !== undefined) made.textContent = text
  made.append(...children)
  return made
}

/**
 * Changes the text of an element, only when it differs: selections stay, and screen readers say nothing twice.
 *
 * @param {Element} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text
}

/**
 * A table whose rows can be replaced cell by cell.
 *
 * @param {HTMLElement} host
 * @param {string} caption for screen readers.
 * @param {readonly { title: string, isNumber?: boolean }[]} columns the first one names the row.
 * @returns {(rows: readonly (readonly string[])[]) => void}
 */
export function tableIn(host, caption, columns) {
  const heads = columns.map(({ title, isNumber }) =>
    element('th', { text: title, scope: 'col', class: isNumber ? 'number' : '' }),
  )
  const body = element('tbody')
  host.append(element('table', { 'aria-label': caption }, [element('thead', {}, [element('tr', {}, heads)]), body]))
  return (rows) => {
    while (body.rows.length > rows.length) body.deleteRow(-1)
    rows.forEach((texts, at) => {
      const row = body.rows[at] ?? body.appendChild(newRow(columns))
      texts.forEach((text, column) => {
        setText(/** @type {Element} */ (row.children[column]), text)
      })
    })
  }
}

/** @param {readonly { isNumber?: boolean }[]} columns */
function newRow(columns) {
  const cells = columns.map(({ isNumber }, at) =>
    at === 0 ? element('th', { scope: 'row' }) : element('td', { class: isNumber ? 'number' : '' }),
  )
  return element('tr', {}, cells)
}
