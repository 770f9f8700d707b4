"""What Bowstring does a second on this machine, beside Kafka: `make bench`. README.md says what is measured, and how."""
