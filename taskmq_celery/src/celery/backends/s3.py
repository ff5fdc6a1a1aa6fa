"""``s3://``: an object for each result, in a bucket of Amazon S3 or of a store that speaks its API.

Which bucket, and with what credentials, is said by the settings ``s3_*``. Objects stay until they
are deleted: let the bucket expire them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kombu.utils.encoding import bytes_to_str

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend
from .drivers import library, named, require

__all__ = ("S3Backend",)

boto3 = library("boto3")
(ClientError,) = named("botocore.exceptions", "ClientError")

NO_BUCKET = "Missing bucket name: s3_bucket has to say where the S3 backend keeps results"
NO_CREDENTIALS = (
    "Missing aws s3 creds: set s3_access_key_id and s3_secret_access_key, or credentials where "
    "boto3 looks for them"
)
NOT_FOUND = "404"


class S3Backend(KeyValueStoreBackend):
    """Stores records as objects. Raises `ImproperlyConfigured` without a bucket or credentials."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require(boto3, "boto3", "S3", "s3")
        conf = self.app.conf
        self.endpoint_url = conf.get("s3_endpoint_url", None)
        self.aws_region = conf.get("s3_region", None)
        self.aws_access_key_id = conf.get("s3_access_key_id", None)
        self.aws_secret_access_key = conf.get("s3_secret_access_key", None)
        self.bucket_name = conf.get("s3_bucket", None)
        if not self.bucket_name:
            raise ImproperlyConfigured(NO_BUCKET)
        self.base_path = conf.get("s3_base_path", None)
        self._s3_resource = self._connect_to_s3()

    def _connect_to_s3(self) -> Any:
        session = boto3.Session(
            aws_access_key_id=self.aws_access_key_id,
            aws_secret_access_key=self.aws_secret_access_key,
            region_name=self.aws_region,
        )
        if session.get_credentials() is None:
            raise ImproperlyConfigured(NO_CREDENTIALS)
        return session.resource("s3", endpoint_url=self.endpoint_url)

    def _get_s3_object(self, key: Any) -> Any:
        name = bytes_to_str(key)
        # The path is put in front as it is: whoever wants a slash between them writes it.
        return self._s3_resource.Object(self.bucket_name, f"{self.base_path or ''}{name}")

    def get(self, key: Any) -> Any:
        found = self._get_s3_object(key)
        try:
            found.load()
            body = found.get()["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in (NOT_FOUND, "NoSuchKey"):
                return None
            raise
        # A pickle is bytes, anything else text.
        return body if self.content_encoding == "binary" else body.decode("utf-8")

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self._get_s3_object(key).put(Body=value)

    def delete(self, key: Any) -> None:
        self._get_s3_object(key).delete()
