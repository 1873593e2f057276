"""Operations of ``DataFrame`` that keep no state, by what they do."""
