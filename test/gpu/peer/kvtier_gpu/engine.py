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
    """One engine at `host:port`. A connection for each request: none is left over to be found dead."""

    def __init__(self, address: str, token: str = '', timeout: float = 60):
        self._address = address
        self._token = token
        self._timeout = timeout

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """Raises EngineError for a refusal, ConnectionError when the engine does not answer."""
        headers = {'connection': 'close'}
        if body is not None:
            headers['content-type'] = 'application/json'
        if self._token:
            headers['authorization'] = f'Bearer {self._token}'
        connection = http.client.HTTPConnection(self._address, timeout=self._timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except (http.client.HTTPException, OSError) as error:
            raise ConnectionError(f'the engine at {self._address} does not answer: {error}') from error
        finally:
            connection.close()
        given = json.loads(text) if text else {}
        if answer.status >= 300:
            refusal = given.get('error', {})
            raise EngineError(answer.status, refusal.get('code', ''), refusal.get('message', ''))
        return given
