import { expect, it } from 'vitest'
import { CIRCUIT_CLOSED, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, CircuitBreaker } from '../../../src/l2/circuit-breaker.ts'

/** A circuit that three failed lookups have opened at time 0. */
function opened(): CircuitBreaker {
  const circuit = new CircuitBreaker(3, 100)
  for (let failures = 0; failures < 3; failures += 1) circuit.fail(0, 'lookup')
  return circuit
}

it('opens after failures in a row, whatever succeeds of another kind meanwhile', () => {
  const circuit = new CircuitBreaker(3, 100)
  circuit.fail(0, 'lookup')
  circuit.succeed('store')
  circuit.fail(0, 'lookup')
  circuit.fail(0, 'store')
  expect(circuit.state).toBe(CIRCUIT_CLOSED)
  circuit.succeed('store')
  circuit.fail(0, 'lookup')
  expect(circuit.state).toBe(CIRCUIT_OPEN)
})

it('stays closed while its failures are not in a row', () => {
  const circuit = new CircuitBreaker(3, 100)
  for (let turn = 0; turn < 10; turn += 1) {
    circuit.fail(0, 'load')
    circuit.fail(0, 'load')
    circuit.succeed('load')
  }
  expect(circuit.state).toBe(CIRCUIT_CLOSED)
})

it('is not closed by what began before it opened', () => {
  const circuit = opened()
  circuit.succeed('store')
  circuit.succeed('lookup')
  expect(circuit.state).toBe(CIRCUIT_OPEN)
  expect(circuit.tryPass(99)).toBe(false)
})

it('lets one batch try, and closes or opens again with it', () => {
  for (const isBack of [true, false]) {
    const circuit = opened()
    expect([circuit.tryPass(100), circuit.tryPass(100), circuit.state]).toEqual([true, false, CIRCUIT_HALF_OPEN])
    if (isBack) circuit.succeed('store')
    else circuit.fail(100, 'store')
    expect(circuit.state).toBe(isBack ? CIRCUIT_CLOSED : CIRCUIT_OPEN)
    expect(circuit.tryPass(150)).toBe(isBack)
  }
})

it('counts anew once it is closed', () => {
  const circuit = opened()
  circuit.tryPass(100)
  circuit.succeed('store')
  circuit.fail(100, 'lookup')
  expect(circuit.state).toBe(CIRCUIT_CLOSED)
})
