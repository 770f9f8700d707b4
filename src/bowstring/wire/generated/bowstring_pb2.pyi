from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Error(_message.Message):
    __slots__ = ("kind", "message", "hint", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    hint: str
    details: _containers.ScalarMap[str, str]
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class HelloRequest(_message.Message):
    __slots__ = ("software", "protocol", "protocol_min", "client_time", "name")
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TIME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    software: str
    protocol: int
    protocol_min: int
    client_time: int
    name: str
    def __init__(self, software: _Optional[str] = ..., protocol: _Optional[int] = ..., protocol_min: _Optional[int] = ..., client_time: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class HelloAnswer(_message.Message):
    __slots__ = ("software", "protocol", "protocol_min", "broker_time", "cluster", "batch_bytes_max", "publish_window", "incarnation")
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    BROKER_TIME_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_WINDOW_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    software: str
    protocol: int
    protocol_min: int
    broker_time: int
    cluster: bytes
    batch_bytes_max: int
    publish_window: int
    incarnation: int
    def __init__(self, software: _Optional[str] = ..., protocol: _Optional[int] = ..., protocol_min: _Optional[int] = ..., broker_time: _Optional[int] = ..., cluster: _Optional[bytes] = ..., batch_bytes_max: _Optional[int] = ..., publish_window: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "partitions", "retention", "retention_bytes", "deduplication", "exists_ok")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_FIELD_NUMBER: _ClassVar[int]
    EXISTS_OK_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    retention: int
    retention_bytes: int
    deduplication: int
    exists_ok: bool
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., retention: _Optional[int] = ..., retention_bytes: _Optional[int] = ..., deduplication: _Optional[int] = ..., exists_ok: _Optional[bool] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("name", "retention", "retention_bytes", "deduplication")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    retention: int
    retention_bytes: int
    deduplication: int
    def __init__(self, name: _Optional[str] = ..., retention: _Optional[int] = ..., retention_bytes: _Optional[int] = ..., deduplication: _Optional[int] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "id", "partitions", "created", "retention", "retention_bytes", "deduplication", "messages", "bytes", "ranges")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: int
    partitions: int
    created: int
    retention: int
    retention_bytes: int
    deduplication: int
    messages: int
    bytes: int
    ranges: _containers.RepeatedCompositeFieldContainer[PartitionRange]
    def __init__(self, name: _Optional[str] = ..., id: _Optional[int] = ..., partitions: _Optional[int] = ..., created: _Optional[int] = ..., retention: _Optional[int] = ..., retention_bytes: _Optional[int] = ..., deduplication: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[PartitionRange, _Mapping]]] = ...) -> None: ...

class PartitionRange(_message.Message):
    __slots__ = ("first", "next")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    first: int
    next: int
    def __init__(self, first: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("pattern", "after", "limit")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    after: str
    limit: int
    def __init__(self, pattern: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListTopicsAnswer(_message.Message):
    __slots__ = ("topics", "more")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    more: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class WatchTopicsRequest(_message.Message):
    __slots__ = ("topics", "edition", "wait")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    EDITION_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[KnownTopic]
    edition: int
    wait: int
    def __init__(self, topics: _Optional[_Iterable[_Union[KnownTopic, _Mapping]]] = ..., edition: _Optional[int] = ..., wait: _Optional[int] = ...) -> None: ...

class KnownTopic(_message.Message):
    __slots__ = ("name", "id", "sum")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: int
    sum: int
    def __init__(self, name: _Optional[str] = ..., id: _Optional[int] = ..., sum: _Optional[int] = ...) -> None: ...

class WatchTopicsAnswer(_message.Message):
    __slots__ = ("edition", "topics")
    EDITION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    edition: int
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    def __init__(self, edition: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name", "missing_ok")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MISSING_OK_FIELD_NUMBER: _ClassVar[int]
    name: str
    missing_ok: bool
    def __init__(self, name: _Optional[str] = ..., missing_ok: _Optional[bool] = ...) -> None: ...

class DeleteTopicAnswer(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class PublishOpen(_message.Message):
    __slots__ = ("topic", "producer", "stream", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    producer: bytes
    stream: int
    group: str
    def __init__(self, topic: _Optional[str] = ..., producer: _Optional[bytes] = ..., stream: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("open", "partition", "number", "previous", "sent", "timeout", "schema", "columns", "rows", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: PublishOpen
    partition: int
    number: int
    previous: int
    sent: int
    timeout: int
    schema: int
    columns: int
    rows: int
    batch: bytes
    def __init__(self, open: _Optional[_Union[PublishOpen, _Mapping]] = ..., partition: _Optional[int] = ..., number: _Optional[int] = ..., previous: _Optional[int] = ..., sent: _Optional[int] = ..., timeout: _Optional[int] = ..., schema: _Optional[int] = ..., columns: _Optional[int] = ..., rows: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...

class PublishAnswer(_message.Message):
    __slots__ = ("partition", "number", "broker_time", "stored", "refused", "resend_after")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BROKER_TIME_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RESEND_AFTER_FIELD_NUMBER: _ClassVar[int]
    partition: int
    number: int
    broker_time: int
    stored: Stored
    refused: Error
    resend_after: int
    def __init__(self, partition: _Optional[int] = ..., number: _Optional[int] = ..., broker_time: _Optional[int] = ..., stored: _Optional[_Union[Stored, _Mapping]] = ..., refused: _Optional[_Union[Error, _Mapping]] = ..., resend_after: _Optional[int] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("first_offset", "rows", "repeats", "duplicate")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    rows: int
    repeats: _containers.RepeatedCompositeFieldContainer[Repeat]
    duplicate: bool
    def __init__(self, first_offset: _Optional[int] = ..., rows: _Optional[int] = ..., repeats: _Optional[_Iterable[_Union[Repeat, _Mapping]]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class Repeat(_message.Message):
    __slots__ = ("row", "rows", "offset")
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    row: int
    rows: int
    offset: int
    def __init__(self, row: _Optional[int] = ..., rows: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchOpen(_message.Message):
    __slots__ = ("topic", "partitions", "until", "columns", "where")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedCompositeFieldContainer[FetchFrom]
    until: int
    columns: int
    where: str
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[FetchFrom, _Mapping]]] = ..., until: _Optional[int] = ..., columns: _Optional[int] = ..., where: _Optional[str] = ...) -> None: ...

class FetchFrom(_message.Message):
    __slots__ = ("partition", "offset", "end")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    end: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("open", "credit")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    open: FetchOpen
    credit: int
    def __init__(self, open: _Optional[_Union[FetchOpen, _Mapping]] = ..., credit: _Optional[int] = ...) -> None: ...

class FetchAnswer(_message.Message):
    __slots__ = ("partition", "next_offset", "arrived", "schema", "columns", "rows", "runs", "origins", "stored_bytes", "batch")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    next_offset: int
    arrived: int
    schema: int
    columns: int
    rows: int
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    origins: _containers.RepeatedCompositeFieldContainer[Origin]
    stored_bytes: int
    batch: bytes
    def __init__(self, partition: _Optional[int] = ..., next_offset: _Optional[int] = ..., arrived: _Optional[int] = ..., schema: _Optional[int] = ..., columns: _Optional[int] = ..., rows: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., origins: _Optional[_Iterable[_Union[Origin, _Mapping]]] = ..., stored_bytes: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("offset", "rows", "arrived")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    offset: int
    rows: int
    arrived: int
    def __init__(self, offset: _Optional[int] = ..., rows: _Optional[int] = ..., arrived: _Optional[int] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("rows", "producer", "number", "first_row", "group")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    rows: int
    producer: bytes
    number: int
    first_row: int
    group: str
    def __init__(self, rows: _Optional[int] = ..., producer: _Optional[bytes] = ..., number: _Optional[int] = ..., first_row: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class OffsetsRequest(_message.Message):
    __slots__ = ("topic", "partitions", "beginning", "latest", "moment", "newest")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BEGINNING_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    beginning: bool
    latest: bool
    moment: int
    newest: int
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., beginning: _Optional[bool] = ..., latest: _Optional[bool] = ..., moment: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class OffsetsAnswer(_message.Message):
    __slots__ = ("topic_id", "offsets")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, topic_id: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class PartitionOffset(_message.Message):
    __slots__ = ("partition", "offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("name", "topic", "offsets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic: str
    offsets: _containers.RepeatedCompositeFieldContainer[PositionOffset]
    def __init__(self, name: _Optional[str] = ..., topic: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[PositionOffset, _Mapping]]] = ...) -> None: ...

class PositionOffset(_message.Message):
    __slots__ = ("partition", "offset", "moved", "lag")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    moved: int
    lag: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., moved: _Optional[int] = ..., lag: _Optional[int] = ...) -> None: ...

class CommitPositionRequest(_message.Message):
    __slots__ = ("topic", "name", "offsets", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., topic_id: _Optional[int] = ...) -> None: ...

class SetPositionRequest(_message.Message):
    __slots__ = ("topic", "name", "offsets", "dry_run")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    dry_run: bool
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DescribePositionRequest(_message.Message):
    __slots__ = ("topic", "name")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListPositionsRequest(_message.Message):
    __slots__ = ("topic", "after_topic", "after_name", "limit")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    AFTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    AFTER_NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    after_topic: str
    after_name: str
    limit: int
    def __init__(self, topic: _Optional[str] = ..., after_topic: _Optional[str] = ..., after_name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListPositionsAnswer(_message.Message):
    __slots__ = ("positions", "more")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    more: bool
    def __init__(self, positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class DeletePositionRequest(_message.Message):
    __slots__ = ("topic", "name", "missing_ok")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MISSING_OK_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    missing_ok: bool
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., missing_ok: _Optional[bool] = ...) -> None: ...

class DeletePositionAnswer(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class FindRequest(_message.Message):
    __slots__ = ("topic", "id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    id: str
    def __init__(self, topic: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class FindAnswer(_message.Message):
    __slots__ = ("found", "partition", "offset")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    found: bool
    partition: int
    offset: int
    def __init__(self, found: _Optional[bool] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class DeleteMessagesRequest(_message.Message):
    __slots__ = ("topic", "group", "ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteMessagesAnswer(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DeletedMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[DeletedMessage, _Mapping]]] = ...) -> None: ...

class DeletedMessage(_message.Message):
    __slots__ = ("partition", "offset", "refused")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    refused: Error
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., refused: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ("target", "proof")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    target: str
    proof: str
    def __init__(self, target: _Optional[str] = ..., proof: _Optional[str] = ...) -> None: ...

class BackupAnswer(_message.Message):
    __slots__ = ("bytes", "bytes_total", "done", "segments", "damaged")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    bytes_total: int
    done: bool
    segments: int
    damaged: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bytes: _Optional[int] = ..., bytes_total: _Optional[int] = ..., done: _Optional[bool] = ..., segments: _Optional[int] = ..., damaged: _Optional[_Iterable[str]] = ...) -> None: ...
