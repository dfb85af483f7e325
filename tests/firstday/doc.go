// Package firstday tests what a new user meets: programs in modules of their own that make
// the mistakes of a first day, and the texts with which the product answers.
package firstday
