"""``dynamodb://key:secret@region:port/table?read=1&write=1&ttl_seconds=86400``: an item for each
result, in a table of Amazon DynamoDB, which is created where it does not exist.

Without credentials in the URL boto3 looks for them. ``localhost`` or an IP address in place of the
region means a local DynamoDB; ``dynamodb_endpoint_url`` any other that speaks its API.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from time import sleep, time
from typing import Any, NamedTuple

from kombu.utils.url import url_to_parts

from celery.exceptions import ImproperlyConfigured
from celery.utils.log import get_logger

from .base import KeyValueStoreBackend
from .drivers import library, named, require

__all__ = ("DynamoDBBackend",)

logger = get_logger(__name__)

boto3 = library("boto3")
(ClientError,) = named("botocore.exceptions", "ClientError")

HALF_CREDENTIALS = (
    "You need to specify both the Access Key ID and Secret of dynamodb://, or neither"
)
OLD_BOTO3 = "boto3 is too old for ttl_seconds of dynamodb://: its client has no {}()"
LOCAL_REGION = "us-east-1"
"""A local DynamoDB takes any region; boto3 wants one."""
TABLE_WAIT = 1.0
"""Seconds between two looks at a table that is being created."""
TTL_ON, TTL_OFF = ("ENABLED", "ENABLING"), ("DISABLED", "DISABLING")


class DynamoDBAttribute(NamedTuple):
    """The name of an attribute, and the letter of its type."""

    name: str
    data_type: str


class DynamoDBBackend(KeyValueStoreBackend):
    """Stores records as items, and counts the parts of chords in items of their own."""

    table_name = "celery"
    read_capacity_units = 1
    write_capacity_units = 1
    aws_region: str | None = None
    endpoint_url: str | None = None
    time_to_live_seconds: int | None = None
    """How long items are kept. Negative: for ever, and the table's time to live is turned off;
    ``None``: for ever, and the table stays as it is."""

    supports_autoexpire = True
    supports_result_compression = True
    implements_incr = True

    _key_field = DynamoDBAttribute("id", "S")
    _value_field = DynamoDBAttribute("result", "B")
    _count_field = DynamoDBAttribute("chord_count", "N")
    _timestamp_field = DynamoDBAttribute("timestamp", "N")
    _ttl_field = DynamoDBAttribute("ttl", "N")

    def __init__(
        self, url: str | None = None, table_name: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(boto3, "boto3", "DynamoDB", "dynamodb")
        self.table_name = table_name or self.table_name
        self._client: Any = None
        self._credentials: tuple[str | None, str | None] = (None, None)
        self.endpoint_url = self.app.conf.get("dynamodb_endpoint_url", None)
        if url is not None:
            self._take_url(url)

    def _take_url(self, url: str) -> None:
        parts = url_to_parts(url)
        if bool(parts.username) != bool(parts.password):
            raise ImproperlyConfigured(HALF_CREDENTIALS)
        self._credentials = parts.username or None, parts.password or None
        place = parts.hostname
        if place and (place == "localhost" or self._is_valid_ip(place)):
            address = f"{place}:{parts.port}" if parts.port else place
            self.endpoint_url, self.aws_region = f"http://{address}", LOCAL_REGION
        else:
            self.aws_region = place
        query = parts.query or {}
        self.read_capacity_units = int(query.get("read", self.read_capacity_units))
        self.write_capacity_units = int(query.get("write", self.write_capacity_units))
        if "ttl_seconds" in query:
            self.time_to_live_seconds = int(query["ttl_seconds"])
        self.table_name = parts.path or self.table_name

    @staticmethod
    def _is_valid_ip(text: str) -> bool:
        try:
            ip_address(text)
        except ValueError:
            return False
        return True

    # -- the client and its table ------------------------------------------------------------

    @property
    def client(self) -> Any:
        """The client; the table is there once it was asked for."""
        return self._get_client()

    def _get_client(
        self, access_key_id: str | None = None, secret_access_key: str | None = None
    ) -> Any:
        if self._client is not None:
            return self._client
        options: dict[str, Any] = {"region_name": self.aws_region}
        if access_key_id is None:
            access_key_id, secret_access_key = self._credentials
        if access_key_id is not None:
            options["aws_access_key_id"] = access_key_id
            options["aws_secret_access_key"] = secret_access_key
        if self.endpoint_url is not None:
            options["endpoint_url"] = self.endpoint_url
        self._client = boto3.client("dynamodb", **options)
        try:
            self._get_or_create_table()
            if self._has_ttl() is not None:
                self._validate_ttl_methods()
                self._set_table_ttl()
        except Exception:
            self._client = None  # whoever asks next tries it again
            raise
        return self._client

    def _get_table_schema(self) -> dict[str, Any]:
        key = self._key_field
        return {
            "TableName": self.table_name,
            "AttributeDefinitions": [
                {"AttributeName": key.name, "AttributeType": key.data_type},
            ],
            "KeySchema": [{"AttributeName": key.name, "KeyType": "HASH"}],
            "ProvisionedThroughput": {
                "ReadCapacityUnits": self.read_capacity_units,
                "WriteCapacityUnits": self.write_capacity_units,
            },
        }

    def _get_or_create_table(self) -> Any:
        try:
            return self._client.describe_table(TableName=self.table_name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
        try:
            made = self._client.create_table(**self._get_table_schema())
        except ClientError as error:
            # Another process was quicker.
            if error.response["Error"]["Code"] != "ResourceInUseException":
                raise
            made = None
        self._wait_for_table_status("ACTIVE")
        return made

    def _wait_for_table_status(self, expected: str = "ACTIVE") -> None:
        while True:
            table = self._client.describe_table(TableName=self.table_name)["Table"]
            if table["TableStatus"] == expected:
                return
            logger.debug("Table %s is %s", self.table_name, table["TableStatus"])
            sleep(TABLE_WAIT)

    # -- time to live ------------------------------------------------------------------------

    def _has_ttl(self) -> bool | None:
        """Whether items expire; ``None`` where nothing was said."""
        seconds = self.time_to_live_seconds
        return None if seconds is None else seconds >= 0

    def _validate_ttl_methods(self) -> None:
        for name in ("update_time_to_live", "describe_time_to_live"):
            if not hasattr(self._client, name):
                raise AttributeError(OLD_BOTO3.format(name))

    def _get_ttl_specification(self, ttl_attr_name: str) -> dict[str, Any]:
        wanted = {"Enabled": self._has_ttl(), "AttributeName": ttl_attr_name}
        return {"TableName": self.table_name, "TimeToLiveSpecification": wanted}

    def _get_table_ttl_description(self) -> Any:
        return self._client.describe_time_to_live(TableName=self.table_name)

    def _set_table_ttl(self) -> Any:
        """Turn the table's time to live on or off, where it is not so already."""
        described = self._get_table_ttl_description()
        now = described["TimeToLiveDescription"]
        name, own = now.get("AttributeName"), self._ttl_field.name
        if self._has_ttl():
            if now["TimeToLiveStatus"] in TTL_ON and name == own:
                return described
            if now["TimeToLiveStatus"] not in TTL_ON:
                name = own
        elif now["TimeToLiveStatus"] in TTL_OFF:
            return described
        # One on another attribute, or one that is just being changed, is refused by the server.
        try:
            return self._client.update_time_to_live(**self._get_ttl_specification(name or own))
        except ClientError:
            logger.exception("The time to live of table %s cannot be changed", self.table_name)
            raise

    # -- requests ----------------------------------------------------------------------------

    def _of_key(self, key: str) -> dict[str, Any]:
        return {self._key_field.name: {self._key_field.data_type: key}}

    def _prepare_get_request(self, key: str) -> dict[str, Any]:
        return {"TableName": self.table_name, "Key": self._of_key(key)}

    def _prepare_item(self, key: str, field: DynamoDBAttribute, value: Any) -> dict[str, Any]:
        now = time()
        item = {
            **self._of_key(key),
            field.name: {field.data_type: value},
            self._timestamp_field.name: {self._timestamp_field.data_type: str(now)},
        }
        if self._has_ttl():
            ends = int(now + (self.time_to_live_seconds or 0))
            item[self._ttl_field.name] = {self._ttl_field.data_type: str(ends)}
        return {"TableName": self.table_name, "Item": item}

    def _prepare_put_request(self, key: str, value: Any) -> dict[str, Any]:
        return self._prepare_item(key, self._value_field, value)

    def _prepare_init_count_request(self, key: str) -> dict[str, Any]:
        return self._prepare_item(key, self._count_field, "0")

    def _prepare_inc_count_request(self, key: str) -> dict[str, Any]:
        count = self._count_field.name
        return {
            **self._prepare_get_request(key),
            "UpdateExpression": f"set {count} = {count} + :num",
            "ExpressionAttributeValues": {":num": {"N": "1"}},
            "ReturnValues": "UPDATED_NEW",
        }

    def _item_to_dict(self, raw_response: Any) -> dict[str, Any]:
        """The attributes of an item that belong to this backend; none for no item."""
        item = raw_response.get("Item") or {}
        own = (self._key_field, self._value_field, self._timestamp_field)
        return {each.name: item[each.name][each.data_type] for each in own if each.name in item}

    # -- keys and payloads -------------------------------------------------------------------
    # The id of an item is what Celery makes of a key: "b'celery-task-meta-…'", quotes and all.

    def get(self, key: Any) -> Any:
        response = self.client.get_item(**self._prepare_get_request(str(key)))
        return self._item_to_dict(response).get(self._value_field.name)

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        self.client.put_item(**self._prepare_put_request(str(key), value))

    def delete(self, key: Any) -> None:
        self.client.delete_item(**self._prepare_get_request(str(key)))

    def incr(self, key: Any) -> int:
        answer = self.client.update_item(**self._prepare_inc_count_request(str(key)))
        count = self._count_field
        return int(answer["Attributes"][count.name][count.data_type])

    def expire(self, key: Any, value: Any) -> None:
        """Items expire by ``ttl_seconds``, which was said when they were made."""

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        key = str(self.get_key_for_chord(header_result_args[0]))
        self.client.put_item(**self._prepare_init_count_request(key))
        return super()._apply_chord_incr(header_result_args, body, **kwargs)
