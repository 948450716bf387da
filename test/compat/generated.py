"""Makes, lists and fails to make an API key by the client that openapi-python-client generated."""

import json
import os

from tollgate_client import AuthenticatedClient
from tollgate_client.api.api_keys import create_api_key, search_api_keys
from tollgate_client.models import ApiKeySearch, CreatedApiKey, NewApiKey, Refusal

client = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"])
made = create_api_key.sync(client=client, body=NewApiKey(name="generated", expires_in="30d", subscription="plenty"))
assert isinstance(made, CreatedApiKey), made
page = search_api_keys.sync(client=client, body=ApiKeySearch())
refused = create_api_key.sync_detailed(client=client, body=NewApiKey(name="generated", expires_in=-1))
assert isinstance(refused.parsed, Refusal), refused
print(
    json.dumps(
        {
            "name": made.name,
            "subscription": made.subscription,
            "listed": len(page.data),
            "refused": refused.status_code,
        }
    )
)
