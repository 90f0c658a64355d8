/** The inner texts of the elements of a name, in order. Elements of one name do not nest in what S3 answers. */
export function elements(xml: string, name: string): string[] {
  return Array.from(xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, 'g')), (match) => match[1]!)
}

/** The text of the first element of a name; '' when there is none. */
export function textOf(xml: string, name: string): string {
  const found = new RegExp(`<${name}(?:\\s[^>]*)?>([^<]*)</${name}>`).exec(xml)
  return found === null ? '' : decode(found[1]!)
}

/** A text that may stand in an element. */
export function encodeText(text: string): string {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`)
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function decode(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w{2,4}));/g, (entity, decimal, hex, name) => {
    if (name !== undefined) return NAMED[name] ?? entity
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity
  })
}
