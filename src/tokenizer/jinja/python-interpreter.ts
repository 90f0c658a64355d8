import { BaseInterpreter, type JinjaNode, type JinjaValue, listOf, runtimeOf, type Scope } from './jinja-values.ts'
import { areEqual, jsonOf, stripped, textOf } from './python-text.ts'

/** Statements: what they give is text already, or nothing. */
const STATEMENTS = new Set(['Set', 'Macro', 'Comment', 'If', 'For', 'CallStatement', 'FilterStatement'])
/** Filters that take a text letter by letter. */
const SEQUENCE_FILTERS = new Set(['list', 'select', 'reject', 'selectattr', 'rejectattr', 'map', 'unique', 'sort'])
const SIDES = { strip: 'both', lstrip: 'left', rstrip: 'right' } as const
/** Spaces that a filter may put before each line. */
const INDENT_MAX = 256

/** A node that is evaluated already. */
interface HeldNode extends JinjaNode {
  readonly type: 'Held'
  readonly held: JinjaValue
}

/**
 * Jinja as Python evaluates it, where the package in JavaScript differs: text of values, + of a text and something else,
 * equality, loops over texts and over what is not defined, letters to strip, and the filters reject, select and tojson.
 */
export class PythonInterpreter extends BaseInterpreter {
  override evaluate(node: JinjaNode | undefined, scope: Scope): JinjaValue {
    return node?.type === 'Held' ? (node as HeldNode).held : super.evaluate(node, scope)
  }

  override evaluateBlock(nodes: readonly JinjaNode[], scope: Scope): JinjaValue {
    let text = ''
    for (const node of nodes) {
      const value = this.evaluate(node, scope)
      const isNothing = value.type === 'NullValue' && STATEMENTS.has(node.type)
      if (!isNothing) text += textOf(value)
    }
    return runtimeOf(text)
  }

  override evaluateBinaryExpression(node: JinjaNode, scope: Scope): JinjaValue {
    const operator = (node.operator as JinjaNode).value as string
    if (operator === 'and' || operator === 'or') return super.evaluateBinaryExpression(node, scope)
    const left = this.evaluate(node.left as JinjaNode, scope)
    const right = this.evaluate(node.right as JinjaNode, scope)
    switch (operator) {
      case '==':
        return runtimeOf(areEqual(left, right))
      case '!=':
        return runtimeOf(!areEqual(left, right))
      case '~':
        return runtimeOf(textOf(left) + textOf(right))
      case '+':
        checkSum(left, right)
        break
      case '%':
        checkModulo(left, right)
        break
      case 'in':
      case 'not in':
        if (isList(right)) return runtimeOf(hasItem(right, left) === (operator === 'in'))
    }
    return super.evaluateBinaryExpression({ ...node, left: held(left), right: held(right) }, scope)
  }

  override evaluateFor(node: JinjaNode, scope: Scope): JinjaValue {
    const iterable = node.iterable as JinjaNode
    const isSelect = iterable.type === 'SelectExpression'
    const items = held(itemsOf(this.evaluate(isSelect ? (iterable.lhs as JinjaNode) : iterable, scope)))
    return super.evaluateFor({ ...node, iterable: isSelect ? { ...iterable, lhs: items } : items }, scope)
  }

  override evaluateMemberExpression(node: JinjaNode, scope: Scope): JinjaValue {
    const object = this.evaluate(node.object as JinjaNode, scope)
    const property = node.property as JinjaNode
    const name = node.computed === true ? undefined : property.value
    if (object.type === 'UndefinedValue') throw new Error(`nothing undefined has a ${name ?? 'member'}`)
    if (object.type !== 'StringValue' || property.type === 'SliceExpression') {
      return super.evaluateMemberExpression({ ...node, object: held(object) }, scope)
    }
    const method = typeof name === 'string' ? methodOf(object.value as string, name) : undefined
    // Letters are counted as Python does, which knows no halves of pairs.
    return (
      method ??
      super.evaluateMemberExpression(
        { ...node, object: held(node.computed === true ? itemsOf(object) : object) },
        scope,
      )
    )
  }

  override evaluateTestExpression(node: JinjaNode, scope: Scope): JinjaValue {
    const operand = this.evaluate(node.operand as JinjaNode, scope)
    const negate = node.negate === true
    const test = (node.test as JinjaNode).value
    if (test === 'iterable') return runtimeOf(isIterable(operand) !== negate)
    if (test === 'number' && operand.type === 'BooleanValue') return runtimeOf(!negate)
    return super.evaluateTestExpression({ ...node, operand: held(operand) }, scope)
  }

  override applyFilter(operand: JinjaValue, filter: JinjaNode, scope: Scope): JinjaValue {
    const hasArguments = filter.type === 'CallExpression'
    const name = String(((hasArguments ? filter.callee : filter) as JinjaNode).value)
    const nodes = hasArguments ? (filter.args as readonly JinjaNode[]) : []
    if (name === 'string') return runtimeOf(textOf(operand))
    if (name === 'tojson') return runtimeOf(this.#json(operand, nodes, scope))
    if (name === 'trim') return runtimeOf(this.#trimmed(operand, nodes, scope))
    if (name === 'join') return runtimeOf(this.#joined(operand, nodes, scope))
    if (name === 'length' && operand.type === 'StringValue') return runtimeOf([...(operand.value as string)].length)
    if (name === 'capitalize') return runtimeOf(capitalized(textOf(operand)))
    if (name === 'indent') this.#checkIndent(nodes, scope)
    if (name === 'select' || name === 'reject') return this.#selected(operand, nodes, scope, name === 'select')
    const items = SEQUENCE_FILTERS.has(name) ? itemsOf(operand) : operand
    const isNothing = items.type === 'UndefinedValue' && name !== 'default'
    return super.applyFilter(isNothing ? runtimeOf('') : items, filter, scope)
  }

  #json(operand: JinjaValue, nodes: readonly JinjaNode[], scope: Scope): string {
    const [positional, named] = this.evaluateArguments(nodes, scope)
    const argument = (at: number, name: string) => (positional[at] ?? named.get(name))?.value ?? null
    const separators = argument(2, 'separators') as readonly JinjaValue[] | null
    const indent = argument(1, 'indent')
    if (indent !== null && !(typeof indent === 'number' && indent <= INDENT_MAX)) throw new Error('tojson: odd indent')
    return jsonOf(operand, {
      ensureAscii: argument(0, 'ensure_ascii') === true,
      indent,
      separators: separators === null ? null : [textOf(separators[0]!), textOf(separators[1]!)],
      sortKeys: argument(3, 'sort_keys') === true,
    })
  }

  #trimmed(operand: JinjaValue, nodes: readonly JinjaNode[], scope: Scope): string {
    const [positional, named] = this.evaluateArguments(nodes, scope)
    const letters = (positional[0] ?? named.get('chars'))?.value as string | null | undefined
    return stripped(textOf(operand), letters ?? undefined, 'both')
  }

  #joined(operand: JinjaValue, nodes: readonly JinjaNode[], scope: Scope): string {
    const [positional, named] = this.evaluateArguments(nodes, scope)
    if (named.has('attribute')) throw new Error('join: attribute is not known here')
    const between = positional[0] ?? named.get('d')
    return (itemsOf(operand).value as JinjaValue[]).map(textOf).join(between === undefined ? '' : textOf(between))
  }

  #checkIndent(nodes: readonly JinjaNode[], scope: Scope): void {
    const [positional, named] = this.evaluateArguments(nodes, scope)
    const width = (positional[0] ?? named.get('width'))?.value
    if (typeof width === 'number' && width > INDENT_MAX) throw new Error(`indent: more than ${INDENT_MAX} spaces`)
  }

  #selected(operand: JinjaValue, nodes: readonly JinjaNode[], scope: Scope, isKept: boolean): JinjaValue {
    const [positional] = this.evaluateArguments(nodes, scope)
    const [test, other] = positional
    const passes = (item: JinjaValue): boolean => {
      if (test === undefined) return isTrue(item)
      if (['equalto', 'eq', '=='].includes(textOf(test))) return areEqual(item, other ?? runtimeOf(null))
      if (textOf(test) === 'in') return other !== undefined && isList(other) && hasItem(other, item)
      const node = { type: 'TestExpression', operand: held(item), test: { type: 'Identifier', value: textOf(test) } }
      return this.evaluateTestExpression(node, scope).value === true
    }
    return listOf((itemsOf(operand).value as JinjaValue[]).filter((item) => passes(item) === isKept))
  }
}

/** A method of a text that the package lacks, or has in another way. */
function methodOf(text: string, name: string): JinjaValue | undefined {
  if (Object.hasOwn(SIDES, name)) {
    const sides = SIDES[name as keyof typeof SIDES]
    return runtimeOf((letters?: string | null) => stripped(text, letters ?? undefined, sides))
  }
  if (name === 'capitalize') return runtimeOf(() => capitalized(text))
  return name === 'join' ? runtimeOf((items: readonly JinjaValue[]) => joinedTexts(items, text)) : undefined
}

function joinedTexts(items: readonly JinjaValue[], between: string): string {
  if (items.some(({ type }) => type !== 'StringValue')) throw new Error('join: not a list of texts')
  return items.map(textOf).join(between)
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).toLowerCase()
}

function held(value: JinjaValue): HeldNode {
  return { type: 'Held', held: value }
}

/** A list to go through: the letters of a text, nothing of what is not defined, else the value itself. */
function itemsOf(value: JinjaValue): JinjaValue {
  if (value.type === 'StringValue') return runtimeOf([...(value.value as string)])
  return value.type === 'UndefinedValue' ? runtimeOf([]) : value
}

// Python has no sum of a text and something else; the package would write the other as JavaScript does.
function checkSum(left: JinjaValue, right: JinjaValue): void {
  const isText = [left, right].map(({ type }) => type === 'StringValue')
  if (isText[0] !== isText[1]) throw new Error(`there is no sum of ${left.type} and ${right.type}`)
}

// Of a negative number the package gives the rest as JavaScript does; the sign is the divisor's in Python.
function checkModulo(left: JinjaValue, right: JinjaValue): void {
  const isPlain = [left, right].every(({ value }) => typeof value === 'number' && value >= 0)
  if (!isPlain) throw new Error('% is known of positive numbers only')
}

function isList({ type }: JinjaValue): boolean {
  return type === 'ArrayValue' || type === 'TupleValue'
}

function hasItem(list: JinjaValue, item: JinjaValue): boolean {
  return (list.value as JinjaValue[]).some((one) => areEqual(one, item))
}

function isIterable(value: JinjaValue): boolean {
  return isList(value) || ['StringValue', 'ObjectValue', 'UndefinedValue'].includes(value.type)
}

function isTrue(value: JinjaValue): boolean {
  return (value as JinjaValue & { __bool__(): JinjaValue }).__bool__().value === true
}
