// Package benchfmt is the one form in which every `millstream bench` command
// reports: a [Figure] per measured number, written as JSON lines for machines
// ([JSONWriter]) or as an aligned table for people ([Table]). It also holds
// what all benchmarks share: message sizes ([ParseSizes]), the statistics of
// alternating rounds ([Rounds]) and the progress line ([Progress]).
package benchfmt
