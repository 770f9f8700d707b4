"""Made from proto/ by `make proto`; nobody edits what is here."""
