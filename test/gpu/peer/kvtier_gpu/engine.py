"""The engine's HTTP API, as far as it is about the GPU."""

import http.client
import json

FAILED = 1 << 52


class EngineError(Exception):
    """The engine refused a request; `code` is the contract."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(f'{status} {code}: {message}')
        self.status = status
        self.code = code


class Engine:
    """One engine at `host:port`. Not for several threads at once: each has its own."""

    def __init__(self, address: str, token: str = '', timeout: float = 60):
        self._address = address
        self._token = token
        self._timeout = timeout
        self._connection = None

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """Raises EngineError for a refusal, OSError when the engine cannot be reached."""
        headers = {'content-type': 'application/json'} if body is not None else {}
        if self._token:
            headers['authorization'] = f'Bearer {self._token}'
        data = None if body is None else json.dumps(body)
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._address, timeout=self._timeout)
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise ConnectionError(f'the engine at {self._address} does not answer: {error}') from error
        given = json.loads(text) if text else {}
        if answer.status >= 300:
            error = given.get('error', {})
            raise EngineError(answer.status, error.get('code', ''), error.get('message', ''))
        return given

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
