// Package records finds the records of a file, whoever reads which part of it.
//
// A file is cut into slices by bytes alone, without being read. A record belongs to
// the slice in which it begins: whoever reads [begin, end) starts behind the first end
// of line at or after begin-1, and goes on until the record that begins before end is
// complete. So for any cuts, each record is read once, and nobody has to ask anybody.
//
// Formats: Lines are texts that end in a newline, which the last one of a file may
// lack; JSON is one JSON value a line; Bytes have no borders, and can be cut anywhere.
// A Scanner is told the bytes of a file block after block, says what of them belongs to
// its slice, and counts. It keeps no record in memory, however long.
//
// Records are counted so that counts add up: of whatever slices in whatever order, the
// sum is that of the whole.
package records
