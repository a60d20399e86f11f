"""Models behind HTTP: the application (`app`), its middleware (`gate`), its models (`models`)."""
