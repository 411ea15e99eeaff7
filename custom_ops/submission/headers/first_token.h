// The compiler includes it before each file (-include). A precompiled header, which is a compiler's memory and may be
// anything, is taken only before the first token of a file: this is that token.
typedef int fops_first_token;
