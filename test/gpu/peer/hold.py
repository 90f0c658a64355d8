"""A process that borrows blocks and keeps them, for tests of what becomes of them. Lines of stdin: `take COUNT` takes
blocks for a prompt of so many tokens, `fill` writes them and commits, `stuck` commits behind a word that is never
written, `release` gives them back, `read` says which byte they hold. Each is answered by one line of JSON.
Usage: hold.py --engine HOST:PORT --token ADMIN_TOKEN --library LIBCUDA --model NAME."""

import argparse
import json
import sys

from kvtier_gpu import Driver, Engine, EngineError, KvShape, ManagedCache
from kvtier_gpu.timeline import Timeline

SMALL = KvShape('bfloat16', layers=2, kv=2, heads=1, head_size=16)
FILL = 77


class Holder:
    def __init__(self, options):
        self._driver = Driver(options.library)
        self._stream = self._driver.stream()
        self._timeline = Timeline(self._driver, self._stream)
        engine = Engine(options.engine, options.token)
        self._cache = ManagedCache(
            engine, self._driver, SMALL, model=options.model, timeline=self._timeline, ttl_seconds=1
        )
        self._host = self._driver.pinned(self._cache.block_bytes)
        self._hold = None

    def answer(self, verb, numbers):
        cache = self._cache
        if verb == 'take':
            self._hold = cache.take(list(range(numbers[0])))
            return {'cached': self._hold.cached_tokens, 'blocks': self._hold.blocks, 'generation': cache.generation}
        if verb == 'fill':
            self._host[:] = bytes([FILL]) * len(self._host)
            for block in self._hold.blocks:
                self._driver.copy_in(self._stream, cache.address(block), self._host, 0, len(self._host))
            return {'chunks': cache.commit(self._hold, wait=self._timeline.mark())}
        if verb == 'stuck':
            return {'chunks': cache.commit(self._hold, wait={'word': 5, 'value': 1})}
        if verb == 'read':
            found = set()
            for block in self._hold.blocks:
                self._driver.copy_out(self._stream, self._host, 0, cache.address(block), len(self._host))
                self._driver.synchronize(self._stream)
                found.update(bytes(self._host))
            return {'values': sorted(found)}
        cache.release(self._hold)
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ('--engine', '--token', '--library', '--model'):
        parser.add_argument(name, required=True)
    holder = Holder(parser.parse_args())
    print(json.dumps({'ready': True}), flush=True)
    for line in sys.stdin:
        verb, *numbers = line.split()
        try:
            answer = holder.answer(verb, [int(number) for number in numbers])
        except EngineError as error:
            answer = {'code': error.code}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
