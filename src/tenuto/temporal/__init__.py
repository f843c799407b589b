"""The same workflows on a Temporal cluster: an optional extra; nothing else imports `temporalio`."""
