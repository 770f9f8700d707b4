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
    __slots__ = ("software", "protocol", "protocol_min", "broker_time", "cluster", "batch_bytes_max", "publish_window", "incarnation", "keeping_time")
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    BROKER_TIME_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_WINDOW_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEEPING_TIME_FIELD_NUMBER: _ClassVar[int]
    software: str
    protocol: int
    protocol_min: int
    broker_time: int
    cluster: bytes
    batch_bytes_max: int
    publish_window: int
    incarnation: int
    keeping_time: int
    def __init__(self, software: _Optional[str] = ..., protocol: _Optional[int] = ..., protocol_min: _Optional[int] = ..., broker_time: _Optional[int] = ..., cluster: _Optional[bytes] = ..., batch_bytes_max: _Optional[int] = ..., publish_window: _Optional[int] = ..., incarnation: _Optional[int] = ..., keeping_time: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("deleted", "topic_id")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    topic_id: int
    def __init__(self, deleted: _Optional[bool] = ..., topic_id: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("topic", "partitions", "until", "columns", "where", "notices", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedCompositeFieldContainer[FetchFrom]
    until: int
    columns: int
    where: str
    notices: bool
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[FetchFrom, _Mapping]]] = ..., until: _Optional[int] = ..., columns: _Optional[int] = ..., where: _Optional[str] = ..., notices: _Optional[bool] = ..., topic_id: _Optional[int] = ...) -> None: ...

class FetchFrom(_message.Message):
    __slots__ = ("partition", "offset", "end", "held")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    end: int
    held: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., end: _Optional[int] = ..., held: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("open", "credit")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    open: FetchOpen
    credit: int
    def __init__(self, open: _Optional[_Union[FetchOpen, _Mapping]] = ..., credit: _Optional[int] = ...) -> None: ...

class FetchAnswer(_message.Message):
    __slots__ = ("partition", "next_offset", "arrived", "schema", "columns", "rows", "runs", "origins", "stored_bytes", "now", "notice", "batch", "scattered")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    SCATTERED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    next_offset: int
    arrived: int
    schema: int
    columns: int
    rows: int
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    origins: _containers.RepeatedCompositeFieldContainer[Origin]
    stored_bytes: int
    now: int
    notice: FetchNotice
    batch: bytes
    scattered: ScatteredRows
    def __init__(self, partition: _Optional[int] = ..., next_offset: _Optional[int] = ..., arrived: _Optional[int] = ..., schema: _Optional[int] = ..., columns: _Optional[int] = ..., rows: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., origins: _Optional[_Iterable[_Union[Origin, _Mapping]]] = ..., stored_bytes: _Optional[int] = ..., now: _Optional[int] = ..., notice: _Optional[_Union[FetchNotice, _Mapping]] = ..., batch: _Optional[bytes] = ..., scattered: _Optional[_Union[ScatteredRows, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("offset", "rows", "arrived")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    offset: int
    rows: int
    arrived: int
    def __init__(self, offset: _Optional[int] = ..., rows: _Optional[int] = ..., arrived: _Optional[int] = ...) -> None: ...

class ScatteredRows(_message.Message):
    __slots__ = ("offsets", "rows", "arrived", "arrived_rows")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_ROWS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    arrived: _containers.RepeatedScalarFieldContainer[int]
    arrived_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ..., arrived: _Optional[_Iterable[int]] = ..., arrived_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class FetchNotice(_message.Message):
    __slots__ = ("retention", "partition", "deleted", "done")
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    retention: int
    partition: int
    deleted: _containers.RepeatedCompositeFieldContainer[Run]
    done: bool
    def __init__(self, retention: _Optional[int] = ..., partition: _Optional[int] = ..., deleted: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., done: _Optional[bool] = ...) -> None: ...

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
    __slots__ = ("messages", "topic_id")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DeletedMessage]
    topic_id: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DeletedMessage, _Mapping]]] = ..., topic_id: _Optional[int] = ...) -> None: ...

class DeletedMessage(_message.Message):
    __slots__ = ("partition", "offset", "refused")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    refused: Error
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., refused: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class CancelMessagesRequest(_message.Message):
    __slots__ = ("topic", "group", "ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelMessagesAnswer(_message.Message):
    __slots__ = ("messages", "topic_id")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DeletedMessage]
    topic_id: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DeletedMessage, _Mapping]]] = ..., topic_id: _Optional[int] = ...) -> None: ...

class MoveMessagesRequest(_message.Message):
    __slots__ = ("topic", "group", "ids", "due")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    due: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., due: _Optional[int] = ...) -> None: ...

class MoveMessagesAnswer(_message.Message):
    __slots__ = ("messages", "topic_id")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DeletedMessage]
    topic_id: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DeletedMessage, _Mapping]]] = ..., topic_id: _Optional[int] = ...) -> None: ...

class CreateSubscriptionRequest(_message.Message):
    __slots__ = ("topic", "name", "mode", "beginning", "latest", "moment", "lease", "exists_ok", "max_deliveries", "backoff", "dead_letters", "unsettled", "keep_max", "where")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BEGINNING_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    EXISTS_OK_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    mode: str
    beginning: bool
    latest: bool
    moment: int
    lease: int
    exists_ok: bool
    max_deliveries: int
    backoff: Backoff
    dead_letters: str
    unsettled: str
    keep_max: int
    where: str
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., mode: _Optional[str] = ..., beginning: _Optional[bool] = ..., latest: _Optional[bool] = ..., moment: _Optional[int] = ..., lease: _Optional[int] = ..., exists_ok: _Optional[bool] = ..., max_deliveries: _Optional[int] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., dead_letters: _Optional[str] = ..., unsettled: _Optional[str] = ..., keep_max: _Optional[int] = ..., where: _Optional[str] = ...) -> None: ...

class Backoff(_message.Message):
    __slots__ = ("first", "factor", "most")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    first: int
    factor: float
    most: int
    def __init__(self, first: _Optional[int] = ..., factor: _Optional[float] = ..., most: _Optional[int] = ...) -> None: ...

class AlterSubscriptionRequest(_message.Message):
    __slots__ = ("topic", "name", "lease", "max_deliveries", "backoff", "dead_letters", "unsettled", "keep_max")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    lease: int
    max_deliveries: int
    backoff: Backoff
    dead_letters: str
    unsettled: str
    keep_max: int
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., lease: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., dead_letters: _Optional[str] = ..., unsettled: _Optional[str] = ..., keep_max: _Optional[int] = ...) -> None: ...

class DescribeSubscriptionRequest(_message.Message):
    __slots__ = ("topic", "name")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListSubscriptionsRequest(_message.Message):
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

class ListSubscriptionsAnswer(_message.Message):
    __slots__ = ("subscriptions", "more")
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    more: bool
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class DeleteSubscriptionRequest(_message.Message):
    __slots__ = ("topic", "name", "missing_ok")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MISSING_OK_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    missing_ok: bool
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., missing_ok: _Optional[bool] = ...) -> None: ...

class DeleteSubscriptionAnswer(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class SeekSubscriptionRequest(_message.Message):
    __slots__ = ("topic", "name", "beginning", "latest", "offsets", "dry_run")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEGINNING_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    beginning: bool
    latest: bool
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    dry_run: bool
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., beginning: _Optional[bool] = ..., latest: _Optional[bool] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SeekSubscriptionAnswer(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[SoughtPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[SoughtPartition, _Mapping]]] = ...) -> None: ...

class SoughtPartition(_message.Message):
    __slots__ = ("partition", "offset", "again", "skipped", "leased")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    again: int
    skipped: int
    leased: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., again: _Optional[int] = ..., skipped: _Optional[int] = ..., leased: _Optional[int] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("topic", "subscription", "limit", "where", "ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    limit: int
    where: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., limit: _Optional[int] = ..., where: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PeekAnswer(_message.Message):
    __slots__ = ("pages",)
    PAGES_FIELD_NUMBER: _ClassVar[int]
    pages: _containers.RepeatedCompositeFieldContainer[FetchAnswer]
    def __init__(self, pages: _Optional[_Iterable[_Union[FetchAnswer, _Mapping]]] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("topic", "subscription", "where", "ids", "after_partition", "after_offset", "limit", "places", "redriven_too")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_PARTITION_FIELD_NUMBER: _ClassVar[int]
    AFTER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_TOO_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    where: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    after_partition: int
    after_offset: int
    limit: int
    places: bool
    redriven_too: bool
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., where: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., after_partition: _Optional[int] = ..., after_offset: _Optional[int] = ..., limit: _Optional[int] = ..., places: _Optional[bool] = ..., redriven_too: _Optional[bool] = ...) -> None: ...

class ListDeadLettersAnswer(_message.Message):
    __slots__ = ("dead_letters", "pages", "letters", "redriven", "more", "next_partition", "next_offset", "found")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PARTITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    dead_letters: str
    pages: _containers.RepeatedCompositeFieldContainer[FetchAnswer]
    letters: _containers.RepeatedCompositeFieldContainer[LetterRows]
    redriven: _containers.RepeatedCompositeFieldContainer[LetterRows]
    more: bool
    next_partition: int
    next_offset: int
    found: _containers.RepeatedCompositeFieldContainer[FoundLetter]
    def __init__(self, dead_letters: _Optional[str] = ..., pages: _Optional[_Iterable[_Union[FetchAnswer, _Mapping]]] = ..., letters: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ..., redriven: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ..., more: _Optional[bool] = ..., next_partition: _Optional[int] = ..., next_offset: _Optional[int] = ..., found: _Optional[_Iterable[_Union[FoundLetter, _Mapping]]] = ...) -> None: ...

class LetterRows(_message.Message):
    __slots__ = ("partition", "offsets", "rows")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class FoundLetter(_message.Message):
    __slots__ = ("partition", "offset", "refused")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    refused: Error
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., refused: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("topic", "subscription", "letters")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    letters: _containers.RepeatedCompositeFieldContainer[LetterRows]
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., letters: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ...) -> None: ...

class RedriveAnswer(_message.Message):
    __slots__ = ("redriven", "gone")
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    redriven: int
    gone: _containers.RepeatedCompositeFieldContainer[LetterRows]
    def __init__(self, redriven: _Optional[int] = ..., gone: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ...) -> None: ...

class PurgeDeadLettersRequest(_message.Message):
    __slots__ = ("topic", "subscription", "letters")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    letters: _containers.RepeatedCompositeFieldContainer[LetterRows]
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., letters: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ...) -> None: ...

class PurgeDeadLettersAnswer(_message.Message):
    __slots__ = ("purged", "held")
    PURGED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    purged: int
    held: _containers.RepeatedCompositeFieldContainer[LetterRows]
    def __init__(self, purged: _Optional[int] = ..., held: _Optional[_Iterable[_Union[LetterRows, _Mapping]]] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("topic", "name", "id", "topic_id", "mode", "lease", "created", "backlog", "leased", "oldest", "delivered_rate", "acked_rate", "nacked_rate", "expired_rate", "partitions", "consumers", "max_deliveries", "backoff", "dead_letters", "unsettled", "keep_max", "where", "dead", "redriven")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_RATE_FIELD_NUMBER: _ClassVar[int]
    ACKED_RATE_FIELD_NUMBER: _ClassVar[int]
    NACKED_RATE_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_RATE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    KEEP_MAX_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    id: int
    topic_id: int
    mode: str
    lease: int
    created: int
    backlog: int
    leased: int
    oldest: int
    delivered_rate: float
    acked_rate: float
    nacked_rate: float
    expired_rate: float
    partitions: _containers.RepeatedCompositeFieldContainer[SubscriptionPartition]
    consumers: _containers.RepeatedCompositeFieldContainer[ConsumerFacts]
    max_deliveries: int
    backoff: Backoff
    dead_letters: str
    unsettled: str
    keep_max: int
    where: str
    dead: int
    redriven: int
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., id: _Optional[int] = ..., topic_id: _Optional[int] = ..., mode: _Optional[str] = ..., lease: _Optional[int] = ..., created: _Optional[int] = ..., backlog: _Optional[int] = ..., leased: _Optional[int] = ..., oldest: _Optional[int] = ..., delivered_rate: _Optional[float] = ..., acked_rate: _Optional[float] = ..., nacked_rate: _Optional[float] = ..., expired_rate: _Optional[float] = ..., partitions: _Optional[_Iterable[_Union[SubscriptionPartition, _Mapping]]] = ..., consumers: _Optional[_Iterable[_Union[ConsumerFacts, _Mapping]]] = ..., max_deliveries: _Optional[int] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., dead_letters: _Optional[str] = ..., unsettled: _Optional[str] = ..., keep_max: _Optional[int] = ..., where: _Optional[str] = ..., dead: _Optional[int] = ..., redriven: _Optional[int] = ...) -> None: ...

class SubscriptionPartition(_message.Message):
    __slots__ = ("partition", "floor", "cursor", "backlog", "leased", "later", "overtaken")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    OVERTAKEN_FIELD_NUMBER: _ClassVar[int]
    partition: int
    floor: int
    cursor: int
    backlog: int
    leased: int
    later: int
    overtaken: int
    def __init__(self, partition: _Optional[int] = ..., floor: _Optional[int] = ..., cursor: _Optional[int] = ..., backlog: _Optional[int] = ..., leased: _Optional[int] = ..., later: _Optional[int] = ..., overtaken: _Optional[int] = ...) -> None: ...

class ConsumerFacts(_message.Message):
    __slots__ = ("name", "connected", "address", "leased", "credit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    connected: bool
    address: str
    leased: int
    credit: int
    def __init__(self, name: _Optional[str] = ..., connected: _Optional[bool] = ..., address: _Optional[str] = ..., leased: _Optional[int] = ..., credit: _Optional[int] = ...) -> None: ...

class ListLeasesRequest(_message.Message):
    __slots__ = ("topic", "subscription", "consumer", "older_than", "after_partition", "after_grant", "limit")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    AFTER_PARTITION_FIELD_NUMBER: _ClassVar[int]
    AFTER_GRANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    consumer: str
    older_than: int
    after_partition: int
    after_grant: int
    limit: int
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., consumer: _Optional[str] = ..., older_than: _Optional[int] = ..., after_partition: _Optional[int] = ..., after_grant: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListLeasesAnswer(_message.Message):
    __slots__ = ("leases", "more", "now")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseFacts]
    more: bool
    now: int
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseFacts, _Mapping]]] = ..., more: _Optional[bool] = ..., now: _Optional[int] = ...) -> None: ...

class LeaseFacts(_message.Message):
    __slots__ = ("partition", "grant", "consumer", "granted", "until", "offsets", "rows")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    grant: int
    consumer: str
    granted: int
    until: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., grant: _Optional[int] = ..., consumer: _Optional[str] = ..., granted: _Optional[int] = ..., until: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseLeasesRequest(_message.Message):
    __slots__ = ("topic", "subscription", "consumer", "older_than")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    consumer: str
    older_than: int
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., consumer: _Optional[str] = ..., older_than: _Optional[int] = ...) -> None: ...

class ExplainKeyRequest(_message.Message):
    __slots__ = ("topic", "subscription", "key")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    key: bytes
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., key: _Optional[bytes] = ...) -> None: ...

class ExplainKeyAnswer(_message.Message):
    __slots__ = ("now", "standings", "consumers")
    NOW_FIELD_NUMBER: _ClassVar[int]
    STANDINGS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    now: int
    standings: _containers.RepeatedCompositeFieldContainer[KeyStanding]
    consumers: int
    def __init__(self, now: _Optional[int] = ..., standings: _Optional[_Iterable[_Union[KeyStanding, _Mapping]]] = ..., consumers: _Optional[int] = ...) -> None: ...

class KeyStanding(_message.Message):
    __slots__ = ("partition", "consumer", "since", "until", "held", "waiting", "first", "later", "preferred", "looked", "stopped", "suspect")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    consumer: str
    since: int
    until: int
    held: int
    waiting: int
    first: int
    later: int
    preferred: str
    looked: int
    stopped: bool
    suspect: int
    def __init__(self, partition: _Optional[int] = ..., consumer: _Optional[str] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., held: _Optional[int] = ..., waiting: _Optional[int] = ..., first: _Optional[int] = ..., later: _Optional[int] = ..., preferred: _Optional[str] = ..., looked: _Optional[int] = ..., stopped: _Optional[bool] = ..., suspect: _Optional[int] = ...) -> None: ...

class ReleaseLeasesAnswer(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class ConsumeOpen(_message.Message):
    __slots__ = ("topic", "subscription", "consumer", "instance", "lease", "mode", "topic_id", "subscription_id", "create", "held", "where")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    subscription: str
    consumer: str
    instance: bytes
    lease: int
    mode: str
    topic_id: int
    subscription_id: int
    create: CreateSubscriptionRequest
    held: _containers.RepeatedCompositeFieldContainer[HeldLeases]
    where: str
    def __init__(self, topic: _Optional[str] = ..., subscription: _Optional[str] = ..., consumer: _Optional[str] = ..., instance: _Optional[bytes] = ..., lease: _Optional[int] = ..., mode: _Optional[str] = ..., topic_id: _Optional[int] = ..., subscription_id: _Optional[int] = ..., create: _Optional[_Union[CreateSubscriptionRequest, _Mapping]] = ..., held: _Optional[_Iterable[_Union[HeldLeases, _Mapping]]] = ..., where: _Optional[str] = ...) -> None: ...

class HeldLeases(_message.Message):
    __slots__ = ("partition", "grants")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    grants: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., grants: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("open", "credit", "settle", "extend", "ready", "pong", "lease", "leaving")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    open: ConsumeOpen
    credit: ConsumeCredit
    settle: _containers.RepeatedCompositeFieldContainer[SettleRows]
    extend: _containers.RepeatedCompositeFieldContainer[ExtendRows]
    ready: bool
    pong: int
    lease: _containers.RepeatedCompositeFieldContainer[LeaseIds]
    leaving: bool
    def __init__(self, open: _Optional[_Union[ConsumeOpen, _Mapping]] = ..., credit: _Optional[_Union[ConsumeCredit, _Mapping]] = ..., settle: _Optional[_Iterable[_Union[SettleRows, _Mapping]]] = ..., extend: _Optional[_Iterable[_Union[ExtendRows, _Mapping]]] = ..., ready: _Optional[bool] = ..., pong: _Optional[int] = ..., lease: _Optional[_Iterable[_Union[LeaseIds, _Mapping]]] = ..., leaving: _Optional[bool] = ...) -> None: ...

class ConsumeCredit(_message.Message):
    __slots__ = ("messages", "bytes")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    bytes: int
    def __init__(self, messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SettleRows(_message.Message):
    __slots__ = ("partition", "request", "answered", "grants", "outcomes", "runs", "offsets", "rows", "moments", "delays", "reasons")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MOMENTS_FIELD_NUMBER: _ClassVar[int]
    DELAYS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    request: int
    answered: int
    grants: _containers.RepeatedScalarFieldContainer[int]
    outcomes: _containers.RepeatedScalarFieldContainer[int]
    runs: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    moments: _containers.RepeatedScalarFieldContainer[int]
    delays: _containers.RepeatedScalarFieldContainer[int]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partition: _Optional[int] = ..., request: _Optional[int] = ..., answered: _Optional[int] = ..., grants: _Optional[_Iterable[int]] = ..., outcomes: _Optional[_Iterable[int]] = ..., runs: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ..., moments: _Optional[_Iterable[int]] = ..., delays: _Optional[_Iterable[int]] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class ExtendRows(_message.Message):
    __slots__ = ("partition", "number", "lease", "grants", "runs", "offsets", "rows")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    number: int
    lease: int
    grants: _containers.RepeatedScalarFieldContainer[int]
    runs: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., number: _Optional[int] = ..., lease: _Optional[int] = ..., grants: _Optional[_Iterable[int]] = ..., runs: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumeAnswer(_message.Message):
    __slots__ = ("now", "opened", "page", "lease", "settled", "extended", "lost", "ping", "revoked", "standing", "batch", "leased")
    NOW_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    now: int
    opened: ConsumeOpened
    page: FetchAnswer
    lease: Lease
    settled: _containers.RepeatedCompositeFieldContainer[RowsSettled]
    extended: _containers.RepeatedCompositeFieldContainer[RowsExtended]
    lost: _containers.RepeatedCompositeFieldContainer[HeldLeases]
    ping: int
    revoked: _containers.RepeatedCompositeFieldContainer[RevokedRows]
    standing: str
    batch: bytes
    leased: IdsLeased
    def __init__(self, now: _Optional[int] = ..., opened: _Optional[_Union[ConsumeOpened, _Mapping]] = ..., page: _Optional[_Union[FetchAnswer, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., settled: _Optional[_Iterable[_Union[RowsSettled, _Mapping]]] = ..., extended: _Optional[_Iterable[_Union[RowsExtended, _Mapping]]] = ..., lost: _Optional[_Iterable[_Union[HeldLeases, _Mapping]]] = ..., ping: _Optional[int] = ..., revoked: _Optional[_Iterable[_Union[RevokedRows, _Mapping]]] = ..., standing: _Optional[str] = ..., batch: _Optional[bytes] = ..., leased: _Optional[_Union[IdsLeased, _Mapping]] = ...) -> None: ...

class LeaseIds(_message.Message):
    __slots__ = ("number", "ids")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    number: int
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class IdsLeased(_message.Message):
    __slots__ = ("number", "own", "refused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    own: _containers.RepeatedCompositeFieldContainer[OwnLease]
    refused: _containers.RepeatedCompositeFieldContainer[RefusedId]
    def __init__(self, number: _Optional[int] = ..., own: _Optional[_Iterable[_Union[OwnLease, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[RefusedId, _Mapping]]] = ...) -> None: ...

class OwnLease(_message.Message):
    __slots__ = ("row", "partition", "grant", "offset")
    ROW_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    row: int
    partition: int
    grant: int
    offset: int
    def __init__(self, row: _Optional[int] = ..., partition: _Optional[int] = ..., grant: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class RefusedId(_message.Message):
    __slots__ = ("row", "error")
    ROW_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    row: int
    error: Error
    def __init__(self, row: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class RevokedRows(_message.Message):
    __slots__ = ("partition", "grant", "offsets", "rows")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    grant: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., grant: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumeOpened(_message.Message):
    __slots__ = ("topic_id", "subscription_id", "mode", "lease", "created", "retention", "numbers_from")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FROM_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    subscription_id: int
    mode: str
    lease: int
    created: bool
    retention: int
    numbers_from: int
    def __init__(self, topic_id: _Optional[int] = ..., subscription_id: _Optional[int] = ..., mode: _Optional[str] = ..., lease: _Optional[int] = ..., created: _Optional[bool] = ..., retention: _Optional[int] = ..., numbers_from: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("grant", "until", "again", "retry_counts", "retry_rows", "topic", "partition", "asked")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    RETRY_ROWS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    grant: int
    until: int
    again: bool
    retry_counts: _containers.RepeatedScalarFieldContainer[int]
    retry_rows: _containers.RepeatedScalarFieldContainer[int]
    topic: str
    partition: int
    asked: int
    def __init__(self, grant: _Optional[int] = ..., until: _Optional[int] = ..., again: _Optional[bool] = ..., retry_counts: _Optional[_Iterable[int]] = ..., retry_rows: _Optional[_Iterable[int]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., asked: _Optional[int] = ...) -> None: ...

class RowsSettled(_message.Message):
    __slots__ = ("partition", "request", "refused")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    request: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedRows]
    def __init__(self, partition: _Optional[int] = ..., request: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedRows, _Mapping]]] = ...) -> None: ...

class RowsExtended(_message.Message):
    __slots__ = ("partition", "number", "until", "refused")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    number: int
    until: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedRows]
    def __init__(self, partition: _Optional[int] = ..., number: _Optional[int] = ..., until: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedRows, _Mapping]]] = ...) -> None: ...

class RefusedRows(_message.Message):
    __slots__ = ("grant", "offsets", "rows", "standing", "holder", "until")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    grant: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    rows: _containers.RepeatedScalarFieldContainer[int]
    standing: str
    holder: str
    until: int
    def __init__(self, grant: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., rows: _Optional[_Iterable[int]] = ..., standing: _Optional[str] = ..., holder: _Optional[str] = ..., until: _Optional[int] = ...) -> None: ...

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
