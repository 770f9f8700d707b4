"""Reading: what is stored where, which rows may be delivered, and the streams of readers."""
