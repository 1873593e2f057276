"""External key sort over Arrow record batches."""
