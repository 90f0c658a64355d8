import { Environment, Interpreter } from '@huggingface/jinja'

// What is used of the package's interpreter; its own declarations do not resolve under Node's rules, and keep private
// what is overridden here. The package is pinned to one version, and tests compare what comes of it with Python.

/** A value of a template: `type` tells what `value` is. */
export interface JinjaValue {
  readonly type: string
  readonly value: unknown
}

/** A node of a parsed template. */
export interface JinjaNode {
  readonly type: string
  readonly [field: string]: unknown
}

export interface Scope {
  set(name: string, value: unknown): JinjaValue
}

export interface Evaluator {
  run(program: unknown): JinjaValue
  evaluate(node: JinjaNode | undefined, scope: Scope): JinjaValue
  evaluateBlock(nodes: readonly JinjaNode[], scope: Scope): JinjaValue
  evaluateFor(node: JinjaNode, scope: Scope): JinjaValue
  evaluateBinaryExpression(node: JinjaNode, scope: Scope): JinjaValue
  evaluateMemberExpression(node: JinjaNode, scope: Scope): JinjaValue
  evaluateTestExpression(node: JinjaNode, scope: Scope): JinjaValue
  evaluateArguments(nodes: readonly JinjaNode[], scope: Scope): [JinjaValue[], Map<string, JinjaValue>]
  applyFilter(operand: JinjaValue, filter: JinjaNode, scope: Scope): JinjaValue
}

export const BaseInterpreter = Interpreter as unknown as new (scope: Scope) => Evaluator
export const NewScope = Environment as unknown as new () => Scope

/** A value of JavaScript as one of a template. */
export function runtimeOf(value: unknown): JinjaValue {
  return new NewScope().set('value', value)
}

/** A list of values that are a template's already. */
export function listOf(values: readonly JinjaValue[]): JinjaValue {
  const list = runtimeOf([])
  ;(list.value as JinjaValue[]).push(...values)
  return list
}
