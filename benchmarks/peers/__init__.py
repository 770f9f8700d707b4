"""The peers: other brokers, measured in the same run. `node` starts them, the rest are their clients, written as their users would."""
