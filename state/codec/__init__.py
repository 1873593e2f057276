"""Values as bytes and back, by row and by column."""
