"""The bundled Spanish-English model of heed: a package's folder of files, which heed.bundled_model() and heed find."""
