"""The gateway to the JVM, errors that come from there, and the Python workers."""
