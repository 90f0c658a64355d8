"""Starts engines on the GPU and runs the peers against them: bytes in both modes, then the demonstration where torch is.
Usage: run.py [--library LIBCUDA] [--chunks N] [--models A,B] [--demo SIZE,TOKENS or none]. Prints lines of JSON; exits 0
when all is well."""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, '..', '..', '..'))
NODE = os.path.join(ROOT, 'node_modules', '.bin', 'node')
START_SECONDS = 240
PROGRAM_SECONDS = 150
STOP_SECONDS = 60
# Variables of the script itself are no options of the engine.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith('KVTIER_')}


class EngineRun:
    """An engine with a data directory of its own, until the `with` block ends."""

    def __init__(self, library, l0_size, l1_size):
        self._flags = ['--l0-device', 'cuda', '--l0-size', l0_size]
        if l1_size:
            self._flags += ['--l1-size', l1_size]
        if library:
            self._flags += ['--cuda-library', library]

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix='kvtier-gpu-')
        data = os.path.join(self._folder.name, 'data')
        ports = [flag for name in ('http', 'prometheus', 'mp') for flag in (f'--{name}-port', '0')]
        argv = [NODE, 'src/cli/main.ts']
        self._process = subprocess.Popen(
            [*argv, 'serve', '--data-dir', data, *ports, *self._flags],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
        )
        try:
            address = self._wait(os.path.join(data, 'addresses.json'))
            made = subprocess.run(
                [*argv, 'token', 'create', '--scope', 'admin', '--data-dir', data, '--json'],
                cwd=ROOT,
                env=ENVIRONMENT,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
        except BaseException:
            self.__exit__()
            raise
        return ['--engine', address, '--token', json.loads(made.stdout)['token']]

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _wait(self, path):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f'the engine ended with exit code {self._process.returncode}')
            try:
                with open(path, encoding='utf8') as file:
                    return json.load(file)['http']
            except (OSError, ValueError):
                time.sleep(0.1)
        raise RuntimeError('the engine does not listen')


def run_with_engine(options, program, argv):
    """Against an engine of its own. Its lines go where ours go. Whether all was well; what was not is told."""
    try:
        with EngineRun(options.library, options.l0_size, options.l1_size) as engine:
            done = subprocess.run(
                [sys.executable, os.path.join(HERE, program), *engine, *argv], check=False, timeout=PROGRAM_SECONDS
            )
            if done.returncode == 0:
                return True
            reason = f'exit code {done.returncode}'
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    print(json.dumps({'check': program, 'fine': False, 'reason': reason}), flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--library', default='')
    parser.add_argument('--chunks', type=int, default=1)
    parser.add_argument('--models', default='llama-3.1-8b,deepseek-mla')
    parser.add_argument('--l0-size', default='160MiB')
    parser.add_argument('--l1-size', default='', help='as the engine chooses')
    parser.add_argument('--demo', default='small,1024')
    parser.add_argument('--repeats', default='5', help='of the demonstration')
    options = parser.parse_args()
    common = ['--library', options.library]
    is_fine = True
    # The first model cuts the pool into its blocks: an engine for each.
    for model in options.models.split(','):
        argv = [*common, '--models', model, '--chunks', str(options.chunks), '--modes', 'attached,layers,managed']
        is_fine = run_with_engine(options, 'bytes.py', argv) and is_fine
    if options.demo == 'none':
        sys.exit(0 if is_fine else 1)
    if importlib.util.find_spec('torch') is None:
        print(json.dumps({'check': 'demo', 'skipped': 'this Python has no torch'}), flush=True)
        sys.exit(0 if is_fine else 1)
    size, tokens = options.demo.split(',')
    for mode in ('attached', 'managed'):
        argv = [*common, '--size', size, '--tokens', tokens, '--mode', mode, '--repeats', options.repeats]
        is_fine = run_with_engine(options, 'demo.py', argv) and is_fine
    sys.exit(0 if is_fine else 1)


if __name__ == '__main__':
    main()
