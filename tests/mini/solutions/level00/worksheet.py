"""Two numbers."""

# 1. Seconds in an hour?
seconds = 60 * 60

# 2. Bytes in a KiB?
kib = 1024
