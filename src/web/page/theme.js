const KEY = 'kvtier-theme'
const THEMES = ['auto', 'light', 'dark']

/**
 * Makes a button go through the themes: what the system has, light, dark. The choice is kept in this browser.
 *
 * @param {HTMLElement} button
 * @param {() => void} onChange also when the system changes.
 */
export function followTheme(button, onChange) {
  let theme = THEMES.find((one) => one === readChoice()) ?? 'auto'
  const show = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
    button.textContent = `Theme: ${theme}`
  }
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto'
    keepChoice(theme)
    show()
    onChange()
  })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onChange)
  show()
}

// Storage may be forbidden; the theme then lasts as long as the page.
function readChoice() {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

/** @param {string} theme */
function keepChoice(theme) {
  try {
    localStorage.setItem(KEY, theme)
  } catch {}
}
