"""``azureblockblob://<connection string>``: a blob for each result, in Azure's Blob Storage.

In place of the connection string ``DefaultAzureCredential@https://account.blob.core.windows.net``
or ``ManagedIdentityCredential@…`` leaves the key to azure-identity.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.objects import cached_property

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend
from .drivers import library, named, require

__all__ = ("AzureBlockBlobBackend",)

azurestorage = library("azure.storage.blob")
(BlobServiceClient,) = named("azure.storage.blob", "BlobServiceClient")
ResourceExistsError, ResourceNotFoundError = named(
    "azure.core.exceptions", "ResourceExistsError", "ResourceNotFoundError"
)
(AzureStorageQueuesTransport,) = named("kombu.transport.azurestoragequeues", "Transport")

SCHEME = "azureblockblob://"
NO_STRING = "Invalid URL: azureblockblob:// has to be followed by a connection string"
IDENTITIES = ("DefaultAzureCredential@", "ManagedIdentityCredential@")

SECRET_FIELDS = re.compile(
    r"(^|;)(\s*(?:accountkey|sharedaccesssignature)\s*=)[^;]*", re.IGNORECASE
)
SIGNATURES = re.compile(r"([?&]sig=)[^&;]*", re.IGNORECASE)
"""What `AzureBlockBlobBackend.as_uri` hides: fields, and parameters of URLs in other fields."""


class AzureBlockBlobBackend(KeyValueStoreBackend):
    """Stores records as blobs of a container, which is created where it does not exist."""

    def __init__(
        self, url: str | None = None, container_name: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(azurestorage, "azure-storage-blob", "Azure Blob Storage", "azureblockblob")
        conf = self.app.conf
        self._connection_string = self._parse_url(url)
        self._container_name = container_name or conf.azureblockblob_container_name
        self.base_path = conf.get("azureblockblob_base_path", "") or ""
        self._connection_timeout = conf.get("azureblockblob_connection_timeout", 20)
        self._read_timeout = conf.get("azureblockblob_read_timeout", 120)

    @classmethod
    def _parse_url(cls, url: str | None, prefix: str = SCHEME) -> str:
        text = url or ""
        if not text.startswith(prefix) or text == prefix:
            raise ImproperlyConfigured(NO_STRING)
        return text[len(prefix) :]

    @cached_property
    def _blob_service_client(self) -> Any:
        """The client; the container is there once it was asked for."""
        timeouts = {
            "connection_timeout": self._connection_timeout,
            "read_timeout": self._read_timeout,
        }
        if self._connection_string.startswith(IDENTITIES):
            credential, address = AzureStorageQueuesTransport.parse_uri(self._connection_string)
            client = BlobServiceClient(account_url=address, credential=credential, **timeouts)
        else:
            client = BlobServiceClient.from_connection_string(self._connection_string, **timeouts)
        with contextlib.suppress(ResourceExistsError):
            client.create_container(name=self._container_name)
        return client

    def _blob(self, key: Any) -> Any:
        # The path is put in front as it is: whoever wants a slash between them writes it.
        return self._blob_service_client.get_blob_client(
            container=self._container_name, blob=f"{self.base_path}{bytes_to_str(key)}"
        )

    def get(self, key: Any) -> Any:
        try:
            found = self._blob(key).download_blob().readall()
        except ResourceNotFoundError:
            return None
        # A pickle is bytes, anything else text.
        return found if self.content_encoding == "binary" else found.decode()

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._blob(key).upload_blob(value, overwrite=True)

    def delete(self, key: Any) -> None:
        with contextlib.suppress(ResourceNotFoundError):
            self._blob(key).delete_blob()

    def as_uri(self, include_password: bool = False) -> str:
        if include_password:
            return f"{SCHEME}{self._connection_string}"
        hidden = SECRET_FIELDS.sub(r"\1\2**", self._connection_string)
        return SCHEME + SIGNATURES.sub(r"\1**", hidden)

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = {
            "url": self.url,
            "container_name": self._container_name,
            "expires": self.expires,
        }
        return super().__reduce__(args, {**given, **(kwargs or {})})
