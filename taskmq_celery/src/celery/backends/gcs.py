"""``gs://bucket/path?gcs_project=…&gcs_ttl=86400``: a blob for each result, in Google Cloud
Storage.

The parts of chords are counted in Firestore, in a collection whose documents have to expire: its
field ``expires_at`` needs a TTL policy. With ``gcs_ttl`` the bucket needs a lifecycle rule that
deletes; it goes by the custom time of a blob.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from os import getpid
from threading import RLock
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.url import url_to_parts

from celery.canvas import maybe_signature
from celery.exceptions import ChordError, ImproperlyConfigured
from celery.result import GroupResult, allow_join_result
from celery.utils.log import get_logger

from .base import KeyValueStoreBackend, _create_chord_error_with_cause
from .drivers import library, named, require

__all__ = ("GCSBackend",)

logger = get_logger(__name__)

storage = library("google.cloud.storage")
firestore = library("google.cloud.firestore")
firestore_admin_v1 = library("google.cloud.firestore_admin_v1")
(Client,) = named("google.cloud.storage", "Client")
(NotFound,) = named("google.cloud.exceptions", "NotFound")
(DEFAULT_RETRY,) = named("google.cloud.storage.retry", "DEFAULT_RETRY")
(HTTPAdapter,) = named("requests.adapters", "HTTPAdapter")

DEFAULT_THREADS = 10
OPTIONS = (
    *("gcs_bucket", "gcs_project", "gcs_base_path", "gcs_ttl", "gcs_threadpool_maxsize"),
    "firestore_project",
)

NO_BUCKET = "Missing bucket name: the GCS backend needs gs://bucket or gcs_bucket"
NO_PROJECT = "Missing project: the GCS backend needs gcs_project, as a setting or in the URL"
BAD_TTL = "Invalid ttl: gcs_ttl must be seconds, and not negative, got {!r}"
NO_RULE = (
    "Missing lifecycle rule: gcs_ttl needs one on the bucket {} that deletes; nothing would expire"
)
NO_POLICY = (
    "Missing TTL policy: the GCS backend needs one on the field {} of the Firestore collection {} "
    "in project {}, or what is counted of chords would stay for ever"
)
WAS_TTL = "%s: ttl means nothing in the URL of the GCS backend, gcs_ttl does"


class GCSBackend(KeyValueStoreBackend):
    """Stores records as blobs, and counts the parts of chords in documents of Firestore.

    Raises `ImproperlyConfigured` for what is missing, in the settings or at Google's.
    """

    implements_incr = True
    supports_native_join = True
    supports_result_compression = True

    _collection_name = "celery"
    _field_count = "chord_count"
    _field_expires = "expires_at"

    def __init__(self, **kwargs: Any) -> None:
        require(storage, "google-cloud-storage", "GCS", "gcs")
        require(firestore, "google-cloud-firestore", "GCS", "gcs")
        self._client_lock, self._firestore_lock = RLock(), RLock()
        self._pid = self._firestore_pid = getpid()
        self._client: Any = None
        self._firestore_client: Any = None
        self._retry_policy = DEFAULT_RETRY
        super().__init__(**kwargs)
        self._take_options({**self._configured(), **self._params_from_url()})
        if not self.bucket_name:
            raise ImproperlyConfigured(NO_BUCKET)
        if not self.project:
            raise ImproperlyConfigured(NO_PROJECT)
        if self.ttl < 0:
            raise ImproperlyConfigured(BAD_TTL.format(self.ttl))
        if self.ttl and not self._is_bucket_lifecycle_rule_exists():
            raise ImproperlyConfigured(NO_RULE.format(self.bucket_name))
        if not self._is_firestore_ttl_policy_enabled():
            raise ImproperlyConfigured(
                NO_POLICY.format(self._field_expires, self._collection_name, self.firestore_project)
            )

    def _configured(self) -> dict[str, Any]:
        return {name: self.app.conf.get(name, None) for name in OPTIONS}

    def _take_options(self, options: dict[str, Any]) -> None:
        self.bucket_name = options["gcs_bucket"]
        self.project = options["gcs_project"]
        self.firestore_project = options["firestore_project"] or self.project
        self.base_path = (options["gcs_base_path"] or "").strip("/")
        self.ttl = float(options["gcs_ttl"] or 0)
        self._threadpool_maxsize = int(options["gcs_threadpool_maxsize"] or DEFAULT_THREADS)

    def _params_from_url(self) -> dict[str, Any]:
        if not self.url:
            return {}
        parts = url_to_parts(self.url)
        query = dict(parts.query or {})
        if "ttl" in query and "gcs_ttl" not in query:
            logger.warning(WAS_TTL, self.as_uri())
        place = {"gcs_bucket": parts.hostname, "gcs_base_path": parts.path}
        return {name: value for name, value in {**place, **query}.items() if value}

    # -- clients: none outlives a fork -------------------------------------------------------

    @property
    def client(self) -> Any:
        """The client of Cloud Storage, of this process."""
        with self._client_lock:
            if self._client is None or self._pid != getpid():
                self._client = Client(project=self.project)
                self._pid = getpid()
                self._widen(self._client)
            return self._client

    def _widen(self, client: Any) -> None:
        """Let as many connections be open as there are threads in `mget`."""
        adapter = HTTPAdapter(pool_maxsize=self._threadpool_maxsize, max_retries=3)
        http = client._http
        http.mount("https://", adapter)
        signer = getattr(getattr(http, "_auth_request", None), "session", None)
        if signer is not None:
            signer.mount("https://", adapter)

    @property
    def firestore_client(self) -> Any:
        """The client of Firestore, of this process."""
        with self._firestore_lock:
            if self._firestore_client is None or self._firestore_pid != getpid():
                self._firestore_client = firestore.Client(project=self.firestore_project)
                self._firestore_pid = getpid()
            return self._firestore_client

    @property
    def bucket(self) -> Any:
        """The bucket, as the client knows it."""
        return self.client.bucket(self.bucket_name)

    def _is_bucket_lifecycle_rule_exists(self) -> bool:
        bucket = self.bucket
        bucket.reload()  # a bucket that was not asked for has no rules
        return any(rule["action"]["type"] == "Delete" for rule in bucket.lifecycle_rules)

    def _is_firestore_ttl_policy_enabled(self) -> bool:
        field = firestore_admin_v1.FirestoreAdminClient().get_field(
            request=firestore_admin_v1.GetFieldRequest(
                name=f"projects/{self.firestore_project}/databases/(default)/collectionGroups/"
                f"{self._collection_name}/fields/{self._field_expires}"
            )
        )
        state = firestore_admin_v1.Field.TtlConfig.State
        return bool(field.ttl_config) and field.ttl_config.state in (state.CREATING, state.ACTIVE)

    # -- keys and payloads -------------------------------------------------------------------

    def _get_blob(self, key: str) -> Any:
        return self.bucket.blob(f"{self.base_path}/{key}" if self.base_path else key)

    def get(self, key: Any) -> Any:
        blob = self._get_blob(bytes_to_str(key))
        try:
            return blob.download_as_bytes(retry=self._retry_policy)
        except NotFound:
            return None

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        with ThreadPoolExecutor(self._threadpool_maxsize) as threads:
            return list(threads.map(self.get, keys))

    def set(self, key: Any, value: Any) -> None:
        blob = self._get_blob(bytes_to_str(key))
        if self.ttl:
            blob.custom_time = datetime.now(timezone.utc) + timedelta(seconds=self.ttl)
        blob.upload_from_string(value, retry=self._retry_policy)

    def delete(self, key: Any) -> None:
        blob = self._get_blob(bytes_to_str(key))
        if blob.exists():
            blob.delete(retry=self._retry_policy)

    # -- chords ------------------------------------------------------------------------------

    def _firestore_document(self, key: Any) -> Any:
        return self.firestore_client.collection(self._collection_name).document(bytes_to_str(key))

    def incr(self, key: Any) -> int:
        """Count. Not tried again by ourselves: a count that did arrive would be one too many."""
        written = self._firestore_document(key).set(
            {self._field_count: firestore.Increment(1)}, merge=True
        )
        return int(written.transform_results[0].integer_value)

    def _expire_chord_key(self, key: Any, expires: float) -> None:
        ends = datetime.now(timezone.utc) + timedelta(seconds=expires)
        self._firestore_document(key).set({self._field_expires: ends}, merge=True)

    def expire(self, key: Any, value: Any) -> None:
        self._expire_chord_key(key, value)

    def _delete_chord_key(self, key: Any) -> None:
        self._firestore_document(key).delete()

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        if self.chord_expires:
            key = bytes_to_str(self.get_key_for_chord(header_result_args[0]))
            self._expire_chord_key(key, self.chord_expires)
        return super()._apply_chord_incr(header_result_args, body, **kwargs)

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> None:
        """Count a part; the saved results are looked for when it was the last."""
        if not request.group:
            return
        key = self.get_key_for_chord(request.group)
        count, size = self.incr(key), request.chord.get("chord_size")
        if size is None or count < size:
            return
        if count > size:
            logger.warning("Chord %s has %s parts, and %s ended", request.group, size, count)
            return
        parts = self._restore_deps(request.group, request)
        try:
            if parts is not None:
                self._call_body(maybe_signature(request.chord, app=self.app), parts)
        finally:
            if parts is not None:
                parts.delete()
            self._delete_chord_key(key)

    def _call_body(self, callback: Any, parts: Any) -> None:
        try:
            with allow_join_result():
                values = parts.join_native(
                    timeout=self.app.conf.result_chord_join_timeout, propagate=True
                )
        except Exception as error:
            culprit = next(parts._failed_join_report(), None)
            reason = repr(error) if culprit is None else f"Dependency {culprit.id} raised {error!r}"
            self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))
            return
        try:
            self.app.amqp._retry_publish(callback.delay, values)
        except Exception as error:
            logger.exception("The body of chord %s cannot be called", parts.id)
            self.chord_error_from_stack(callback, ChordError(f"Callback error: {error!r}"))

    def _restore_deps(self, gid: str, request: Any) -> Any:
        """The saved results of a chord's header; the body fails where they are gone."""
        lost: Exception | None = None
        try:
            parts = GroupResult.restore(gid, backend=self)
        except Exception as error:
            parts, lost = None, error
        if parts is None:
            reason = f"Cannot restore group: {lost!r}" if lost else f"GroupResult {gid} is gone"
            self.chord_error_from_stack(
                maybe_signature(request.chord, app=self.app),
                _create_chord_error_with_cause(reason, lost),
            )
        return parts
