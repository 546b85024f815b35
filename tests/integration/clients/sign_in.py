"""Signs in with the OAuth client of the official Python SDK: sign_in.py URL, read from standard input.

Registers, opens the address as a browser does, agrees on vmcp's page, comes back with a code, then calls the tools
`forge_inspect` and `other_inspect`, forgets its access token, and calls again with the refreshed one. Prints one JSON
line: the texts of the calls, the addresses that the browser was sent to, and the tokens of the client.
"""

import asyncio
import html
import json
import re
import sys
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

CALLBACK = "http://127.0.0.1:39999/callback"


class Storage:
    """Tokens and registration, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client: OAuthClientInformationFull) -> None:
        self.client = client


class Browser:
    """Opens an address with cookies, agrees, and stops where the client listens."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.consents = 0
        self.back = ""

    async def open(self, address: str) -> None:
        async with httpx2.AsyncClient() as http:
            answer = await http.get(address)
            for _ in range(20):
                if answer.is_redirect:
                    address = urljoin(address, answer.headers["location"])
                    self.visited.append(address)
                    if address.startswith(CALLBACK):
                        self.back = address
                        return
                    answer = await http.get(address)
                    continue
                request = re.search(r'name="request" value="([^"]+)"', answer.text)
                action = re.search(r'action="([^"]+)"', answer.text)
                if not request or not action:
                    raise RuntimeError(f"{answer.status_code}: {answer.text}")
                self.consents += 1
                address = html.unescape(action[1])
                form = {"request": request[1], "decision": "allow"}
                origin = "://".join(urlsplit(address)[:2])
                answer = await http.post(address, data=form, headers={"origin": origin})
        raise RuntimeError("too many redirects")

    async def result(self) -> AuthorizationCodeResult:
        back = parse_qs(urlsplit(self.back).query)
        if "code" not in back:
            raise RuntimeError(self.back)
        return AuthorizationCodeResult(code=back["code"][0], state=back["state"][0], iss=back["iss"][0])


async def inspect(client: Client, name: str) -> str:
    """Calls a tool once it is there: its backend is listed after the first sign-in."""
    for _ in range(200):
        try:
            called = await client.call_tool(name, {})
            if not called.is_error:
                return called.content[0].text
        except MCPError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError(f"no tool {name}")


async def call(url: str, auth: OAuthClientProvider) -> dict[str, str]:
    async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            return {name: await inspect(client, name) for name in ("forge_inspect", "other_inspect")}


async def main(url: str) -> None:
    storage, browser = Storage(), Browser()
    metadata = OAuthClientMetadata(client_name="Scenario", redirect_uris=[CALLBACK])
    auth = OAuthClientProvider(url, metadata, storage, browser.open, browser.result)
    first = await call(url, auth)
    before = storage.tokens
    # The access token has expired, as far as the client can tell.
    auth.context.token_expiry_time = 1
    second = await call(url, auth)
    print(json.dumps({
        "first": first,
        "second": second,
        "visited": browser.visited,
        "consents": browser.consents,
        "tokens": [before.model_dump(mode="json"), storage.tokens.model_dump(mode="json")],
        "client": storage.client.model_dump(mode="json"),
    }))


asyncio.run(main(sys.argv[1]))
