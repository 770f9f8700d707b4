"""Commands and flags of other systems, and what to use here.

Someone who types a command or flag of Kafka, NATS, RabbitMQ or Pulsar by habit gets this pointer.
The nearest spelling would be wrong: `consume` is not `context`, and `--topic` is not `--to`.
"""

from __future__ import annotations

from typing import Final

_READ: Final = "`bowstring read TOPIC` prints messages, and --follow goes on."
_PRODUCE: Final = "`bowstring produce TOPIC` publishes lines of stdin, --value TEXT, or files."
_SERVE: Final = "`bowstring serve` runs a broker."
_CONSUME: Final = "`bowstring consume TOPIC SUBSCRIPTION` takes messages from a queue."
_SUBSCRIPTION: Final = "Queues are subscriptions: `bowstring subscription create|list|describe|alter|delete`."
_SETTLE: Final = "`bowstring consume` acks what it prints; with --exec the exit code decides."
_ATTRIBUTES: Final = "Headers are attributes here: produce --attribute K=V, read --columns attributes."

COMMANDS: Final[dict[str, str]] = {
    **dict.fromkeys(("subscribe", "worker", "work", "receive", "receive-message", "pull", "dequeue", "share-consumer"), _CONSUME),
    **dict.fromkeys(("queue", "queues", "subscriptions", "share-groups"), _SUBSCRIPTION),
    **dict.fromkeys(("consumer", "consumers"), "`bowstring subscription describe TOPIC SUBSCRIPTION` lists consumers."),
    **dict.fromkeys(("ack", "nack", "reject", "requeue"), _SETTLE),
    "extend": "The kit extends leases by itself; `bowstring consume --lease SPAN` asks for longer ones.",
    "leases": "`bowstring lease list TOPIC SUBSCRIPTION` lists them.",
    **dict.fromkeys(("subscription show", "subscription get", "subscription info"), "Use `bowstring subscription describe`."),
    **dict.fromkeys(
        ("subscription purge", "subscription reset"), "`bowstring subscription seek TOPIC SUBSCRIPTION --to latest` does that."
    ),
    **dict.fromkeys(("cat", "fetch", "get", "sub", "reader", "console-consumer"), _READ),
    "tail": "`bowstring read TOPIC --last 10 --follow` does that.",
    "follow": "`bowstring read TOPIC --follow` does that.",
    "head": "`bowstring read TOPIC --limit 10` does that.",
    **dict.fromkeys(("publish", "pub", "send", "put", "write", "console-producer"), _PRODUCE),
    **dict.fromkeys(("start", "run", "server", "broker", "up"), _SERVE),
    "stop": "A broker ends on Ctrl-C or SIGTERM.",
    **dict.fromkeys(("create", "delete", "describe", "alter"), "Topics: `bowstring topic create|list|describe|alter|delete`."),
    **dict.fromkeys(("topics", "list", "ls"), "`bowstring topic list` lists them."),
    **dict.fromkeys(
        ("group", "groups", "offset", "offsets", "lag", "consumer-groups"), "`bowstring position list` tells how far readers are."
    ),
    **dict.fromkeys(
        ("status", "info", "ping", "health"), "`bowstring topic list` asks a broker, `bowstring inspect DIR` looks at its data."
    ),
    **dict.fromkeys(("settings", "configs"), "`bowstring config show` tells the settings."),
    **dict.fromkeys(("import", "load"), "`bowstring produce TOPIC FILE` publishes a file."),
    **dict.fromkeys(("export", "dump"), "`bowstring read TOPIC -o parquet > FILE` writes a file."),
    "benchmark": "`bowstring bench` measures a broker.",
}

OPTIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("--headers", "--header", "-H", "--property", "--properties", "--attributes"), _ATTRIBUTES),
    **dict.fromkeys(
        ("--bootstrap-server", "--bootstrap-servers", "--broker-list", "--brokers", "--broker", "--url", "--host"), "Use --server."
    ),
    **dict.fromkeys(("--from-beginning", "--earliest"), "`read` begins at the beginning; --start says another place."),
    **dict.fromkeys(("--offset", "--offsets", "--since", "--from", "--start-time", "--after"), "Use --start."),
    **dict.fromkeys(("--until", "--to-time", "--before"), "Use --end."),
    **dict.fromkeys(("--tail", "--newest"), "Use --last N."),
    **dict.fromkeys(("--max-messages", "--count", "--max", "-c"), "Use --limit N."),
    **dict.fromkeys(("--consumer-group", "--group-id"), "A reader keeps its place under --name."),
    "--json": "Use -o json.",
    "--csv": "Use -o csv.",
    "--filter": "Use --where.",
    "--message": "Use --value.",
    "--file": "Name the file behind the topic: `bowstring produce TOPIC FILE`.",
    "--ttl": "Use --expires for a message, --retention for a topic.",
    "--replication-factor": "There is one copy today; backups are `bowstring backup`.",
}


OF_QUEUES: Final[dict[str, str]] = {
    **dict.fromkeys(("--from-beginning", "--earliest"), "A new subscription begins at the beginning; --start says another place."),
    **dict.fromkeys(("--follow", "-f"), "It goes on until Ctrl-C; --limit N or --idle SPAN end it."),
    **dict.fromkeys(("--last", "--tail", "--end", "--until"), "A queue has no such place; `bowstring read` does that."),
    **dict.fromkeys(("--prefetch", "--prefetch-count", "--prefetch-multiplier", "--qos"), "Use --credit N: how many messages it holds."),
    **dict.fromkeys(("--visibility-timeout", "--ack-deadline", "--ack-wait", "--lock-duration"), "Use --lease SPAN."),
    **dict.fromkeys(("--max-number-of-messages", "--max-records"), "Use --limit N."),
    **dict.fromkeys(("--wait-time-seconds", "--wait"), "It waits anyway; --idle SPAN ends it when nothing comes for that long."),
    **dict.fromkeys(("--auto-ack", "--ack"), "It acks what it has printed; --no-ack gives it back."),
    **dict.fromkeys(("--workers", "--parallel", "--threads", "-c"), "Use --concurrency N with --exec."),
    **dict.fromkeys(("--cmd", "--command", "--run"), "Use --exec 'COMMAND'."),
    **dict.fromkeys(("--consumer-name", "--consumer-id", "--client-id", "--hostname"), "A consumer has its name by --name."),
    **dict.fromkeys(("--max-retries", "--maximum-retries"), "Use --max-deliveries of `bowstring subscription create`."),
    "--where": "A filter stays as it was created: create another subscription.",
}
"""Flags for commands about subscriptions, and `bowstring consume` above all."""
_SUBSCRIPTION_FLAGS: Final = ("--subscription", "--queue", "--queue-url", "--group", "--group-id", "--consumer-group", "-Q")


def option(name: str, usage: str) -> str:
    """The pointer for an unknown flag; empty if no other system has it."""
    if name in ("--topic", "-t"):
        return f"The topic is no flag: `{usage}`."
    if "SUBSCRIPTION" not in usage:
        return OPTIONS.get(name, "")
    return f"The subscription is no flag: `{usage}`." if name in _SUBSCRIPTION_FLAGS else OF_QUEUES.get(name) or OPTIONS.get(name, "")
