"""What a library does not do: files, progress lines, checks, devices, extras."""
