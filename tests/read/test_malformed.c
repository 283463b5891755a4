/*
 * Tests of malformed input of every format: each is refused with its status, line and column, and a message that says
 * the same in words; outputs are untouched.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bad {
    const char *text;
    size_t size;
    xsm_status status;
    uint64_t line, column;
    const char *says; /* a part of the message */
    xsm_read_options options;
} bad;

#define WITH(...)                                                                                                      \
    {                                                                                                                  \
        .size = sizeof(xsm_read_options), __VA_ARGS__                                                                  \
    }
#define AUTO WITH(.format = XSM_FORMAT_AUTO)
#define XC WITH(.format = XSM_FORMAT_XC)
#define SVM WITH(.format = XSM_FORMAT_LIBSVM)
#define CSV WITH(.format = XSM_FORMAT_CSV)
#define ARRAY WITH(.format = XSM_FORMAT_NPY, .label_column = "-1")
#define WORDS WITH(.format = XSM_FORMAT_TEXT)
#define FORMAT XSM_ERROR_FORMAT

/* The start of an array; `length` is the byte that says how many follow up to the numbers. */
#define NPY(length, type, shape)                                                                                       \
    "\x93NUMPY\x01\x00" length "\x00{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }"

static const xsm_class_map map_of_three = {.size = sizeof(xsm_class_map), .classes = 2, .features = 3};

static const xsm_text_options thrice = {.size = sizeof thrice, .min_count = 3};
static const xsm_text_options hashes = {.size = sizeof hashes, .label_prefix = "#"};
static const xsm_text_options many_buckets = {.size = sizeof many_buckets, .word_ngrams = 2, .buckets = 2147483646};

static const bad cases[] = {
    /* which format? */
    {TEXT(""), XSM_ERROR_DATA, 0, 0, "empty", AUTO},
    {TEXT("\xEF\xBB\xBF"), XSM_ERROR_DATA, 0, 0, "empty", AUTO},
    {TEXT("\n\n"), FORMAT, 1, 1, "format", AUTO},
    {TEXT("1 2\n"), FORMAT, 1, 1, "XC text", AUTO},
    {TEXT("1 2 3 4\n"), FORMAT, 1, 1, "LIBSVM", AUTO},
    {TEXT("1 2 -3\n"), FORMAT, 1, 1, "'1 2 -3'", AUTO},
    {TEXT("\n__label_a some words\n"), FORMAT, 2, 1, "a word starts with __label__", AUTO},
    {TEXT("a,b,c\n1,2,3\n"), FORMAT, 1, 1, "no column 'label'", AUTO},
    {TEXT("1.5 2:3\n"), FORMAT, 1, 1, "format", AUTO},
    {TEXT("1\n2\n3\n"), FORMAT, 1, 1, "no line has a feature", AUTO},
    {TEXT("\x89QNG\r\n\x1A\n"), FORMAT, 1, 1, "'\\x89QNG'", AUTO},
    {TEXT("\xFF\xFC\x31\0 \0"), FORMAT, 1, 1, "\\xFF\\xFC1\\x00", AUTO},
    {TEXT("1:\n"), FORMAT, 1, 3, "expected a number, found the end of the line", AUTO},
    /* XC header */
    {TEXT("0 5 5\n"), XSM_ERROR_DATA, 0, 0, "no rows", AUTO},
    {TEXT("1 0 5\n1\n"), FORMAT, 1, 1, "no features", AUTO},
    {TEXT("1 2147483648 5\n1 2:3\n"), XSM_ERROR_LIMIT, 1, 3, "number of features", AUTO},
    {TEXT("1 5 99999999999\n1 2:3\n"), XSM_ERROR_LIMIT, 1, 5, "number of labels", AUTO},
    {TEXT("99999999999999999999 5 5\n1 2:3\n"), XSM_ERROR_LIMIT, 1, 1, "number of rows", AUTO},
    {TEXT("3 5 5\n1 2:3\n1 2:3\n"), FORMAT, 1, 1, "declares 3 rows and the file has 2", AUTO},
    {TEXT("1 5 5\n1 2:3\n1 2:3\n"), FORMAT, 3, 1, "a row too many", AUTO},
    {TEXT("18446744073709551615 5 5\n1 2:3\n"), XSM_ERROR_LIMIT, 1, 1, "rows", AUTO},
    {TEXT("9223372036854775807 5 5\n1 2:3\n"), FORMAT, 1, 1, "declares 9223372036854775807 rows", AUTO},
    {TEXT("2 5 5\n1 2:3\n1 5:3\n"), FORMAT, 3, 3, "0 to 4 are accepted", AUTO},
    {TEXT("2 5 5\n1 2:3\n1,5 2:3\n"), FORMAT, 3, 3, "0 to 4 are accepted", AUTO},
    {TEXT("1 5 0\n0 2:3\n"), FORMAT, 2, 1, "declares 0 labels", AUTO},
    {TEXT("1 5 5\n1 2:3 3:1\n"), FORMAT, 2, 7, "xsm_read_options.features", WITH(.features = 3)},
    {TEXT("1 3 5\n1 2:3 3:1\n"), FORMAT, 2, 7, "first line declares 3", WITH(.features = 4)},
    {TEXT("1 4 5\n1 2:3 4:1\n"), FORMAT, 2, 7, "first line declares 4", WITH(.classes = &map_of_three)},
    /* XC rows */
    {TEXT("1 5 5\nx 2:3\n"), FORMAT, 2, 1, "expected a label", AUTO},
    {TEXT("1 5 5\n-1 2:3\n"), FORMAT, 2, 1, "from 0", AUTO},
    {TEXT("1 5 5\n+1 2:3\n"), FORMAT, 2, 1, "expected a label", AUTO},
    {TEXT("1 5 5\n1.0 2:3\n"), FORMAT, 2, 1, "integer label", AUTO},
    {TEXT("1 5 5\n1x 2:3\n"), FORMAT, 2, 2, "after a label, found 'x'", AUTO},
    {TEXT("1 5 5\n1, 2:3\n"), FORMAT, 2, 3, "expected a label", AUTO},
    {TEXT("1 5 5\n1,\n"), FORMAT, 2, 3, "the end of the line", AUTO},
    {TEXT("1 5 5\n,1 2:3\n"), FORMAT, 2, 1, "expected a label", AUTO},
    {TEXT("1 5 5\n1,,2 2:3\n"), FORMAT, 2, 3, "expected a label", AUTO},
    {TEXT("1 5 5\n1,2:3\n"), FORMAT, 2, 3, "not a feature", AUTO},
    {TEXT("99999999999999999999 2:3\n"), XSM_ERROR_LIMIT, 1, 1, "64 bits", XC},
    {TEXT("1 5 5\n1 2:3,3:4\n"), FORMAT, 2, 6, "expected a space after a value, found ',3:4'", AUTO},
    {TEXT("1 5 5\n1 1:2x\n"), FORMAT, 2, 6, "found 'x'", AUTO},
    {TEXT("1 5 5\n1 1:2e\n"), FORMAT, 2, 6, "found 'e'", AUTO},
    {TEXT("1 5 5\n1 1:\n"), FORMAT, 2, 5, "expected a number", AUTO},
    {TEXT("1 5 5\n1 1: 2\n"), FORMAT, 2, 5, "found a space", AUTO},
    {TEXT("1 5 5\n1 1\n"), FORMAT, 2, 4, "expected ':'", AUTO},
    {TEXT("1 5 5\n1 1 :2\n"), FORMAT, 2, 4, "expected ':'", AUTO},
    {TEXT("1 5 5\n1 :2\n"), FORMAT, 2, 3, "index:value", AUTO},
    {TEXT("1 5 5\n1 -1:2\n"), FORMAT, 2, 3, "index:value", AUTO},
    {TEXT("1 5 5\n1 1.5:2\n"), FORMAT, 2, 4, "expected ':'", AUTO},
    {TEXT("1 5 5\n1 1:nan\n"), FORMAT, 2, 5, "finite", AUTO},
    {TEXT("1 5 5\n1 1:-Infinity\n"), FORMAT, 2, 5, "finite", AUTO},
    {TEXT("1 5 5\n1 1:1e39\n"), FORMAT, 2, 5, "float32", AUTO},
    {TEXT("1 5 5\n1 1:0x10\n"), FORMAT, 2, 6, "found 'x10'", AUTO},
    {TEXT("1 5 5\n1 1:2 3:1 1:3\n"), FORMAT, 2, 11, "second time", AUTO},
    {TEXT("1 5 5\n1 1:2 1:2\n"), FORMAT, 2, 7, "second time", AUTO},
    {TEXT("1 5 5\n1 3:0 1:2 3:0\n"), FORMAT, 2, 11, "feature 3", AUTO},
    {TEXT("1 5 5\n1 1:2 # 3:1\n"), FORMAT, 2, 7, "found '#'", AUTO},
    {TEXT("1 5 5\n1 1:2\r 3:1\n"), FORMAT, 2, 6, "found '\\x0D'", AUTO},
    {TEXT("1 5 5\n1 1:2\0 3:1\n"), FORMAT, 2, 6, "found '\\x00'", AUTO},
    {TEXT("1 5 5\n1 1:2\xC3\xA9\n"), FORMAT, 2, 6, "found '\xC3\xA9'", AUTO},
    {TEXT("1 5 5\r1 1:2\r"), FORMAT, 1, 6, "a carriage return alone", XC},
    {TEXT("a,label\r1,2\r3,4"), FORMAT, 1, 8, "a carriage return alone", AUTO},
    {TEXT("__label__a b\r__label__c d\r"), FORMAT, 1, 13, "a carriage return alone", AUTO},
    {TEXT("1 9223372036854775808:1\n"), XSM_ERROR_LIMIT, 1, 3, "9223372036854775807", XC},
    {TEXT("1 99999999999999999999999:1\n"), XSM_ERROR_LIMIT, 1, 3, "9223372036854775807", XC},
    {TEXT("1\n2\n"), XSM_ERROR_DATA, 0, 0, "no row has a feature", XC},
    {TEXT(""), XSM_ERROR_DATA, 0, 0, "no rows", XC},
    {TEXT("\xEF\xBB\xBF"), XSM_ERROR_DATA, 0, 0, "no rows", XC},
    {TEXT("1 2:3\n\n1 4\n"), FORMAT, 3, 4, "expected ':'", XC},
    /* LIBSVM */
    {TEXT(""), XSM_ERROR_DATA, 0, 0, "no rows", SVM},
    {TEXT("\xEF\xBB\xBF"), XSM_ERROR_DATA, 0, 0, "no rows", SVM},
    {TEXT("# nothing\n\n"), XSM_ERROR_DATA, 0, 0, "no rows", SVM},
    {TEXT("2 5 9\n1 2:3\n"), FORMAT, 1, 4, "expected ':'", SVM},
    {TEXT("1 1:2 qid:4 2:2\n"), FORMAT, 1, 7, "before the features", AUTO},
    {TEXT("1 1:2 qid:4 2:2\n"), FORMAT, 1, 7, "index:value", XC},
    {TEXT("+1 1:1\n0.5 2:3\n"), FORMAT, 2, 1, "integer label", AUTO},
    {TEXT("+1 1:1\nnan 2:3\n"), FORMAT, 2, 1, "label", AUTO},
    {TEXT("+1 1:1\ncat 2:3\n"), FORMAT, 2, 1, "found 'cat'", AUTO},
    {TEXT("+1 1:1\n- 2:3\n"), FORMAT, 2, 1, "label", AUTO},
    {TEXT("+1 1:1\n1e30 2:3\n"), XSM_ERROR_LIMIT, 2, 1, "64 bits", AUTO},
    {TEXT("+1 1:1\n1;2 2:3\n"), FORMAT, 2, 2, "found ';2'", AUTO},
    {TEXT("+1 1:1\n1 2:3#\n1 3:2 # 3:2\n1 3:2 3:2\n"), FORMAT, 4, 7, "feature 3", AUTO},
    {TEXT("1 1:1\n1 0:1\n"), FORMAT, 2, 3, "start at 1", WITH(.index_base = XSM_INDEX_BASE_ONE)},
    {TEXT("1 2:1 1:1 2:1\n"), FORMAT, 1, 11, "feature 2", WITH(.index_base = XSM_INDEX_BASE_ONE)},
    {TEXT("1 1:1\n1 4:1\n"), FORMAT, 2, 3, "1 to 3", WITH(.index_base = XSM_INDEX_BASE_ONE, .features = 3)},
    {TEXT("1 1:1\n1 3:1\n"), FORMAT, 2, 3, "0 to 2", WITH(.index_base = XSM_INDEX_BASE_ZERO, .features = 3)},
    {TEXT("1 1:1\n1 4:1\n"), FORMAT, 2, 3, "1 to 3", WITH(.features = 3)},
    {TEXT("1 1:1 3:1\n1 3:1\n1 0:1\n"), FORMAT, 1, 7, "0 to 2", WITH(.features = 3)},
    {TEXT("1 0:1\n1 3:1\n"), FORMAT, 2, 3, "0 to 2", WITH(.features = 3)},
    {TEXT("1 2147483648:1\n"), XSM_ERROR_LIMIT, 1, 3, "2147483647", WITH(.classes = &map_of_three)},
    {TEXT("1 0:1\n1 2147483647:1\n"), XSM_ERROR_LIMIT, 2, 3, "2147483646", WITH(.classes = &map_of_three)},
    {TEXT("1 2147483647:1\n1 0:1\n"), XSM_ERROR_LIMIT, 1, 3, "2147483646", WITH(.classes = &map_of_three)},
    {TEXT("3\n4\n"), XSM_ERROR_DATA, 0, 0, "no row has a feature", SVM},
    /* CSV and TSV */
    {TEXT(""), XSM_ERROR_DATA, 0, 0, "empty", CSV},
    {TEXT("\xEF\xBB\xBF"), XSM_ERROR_DATA, 0, 0, "empty", CSV},
    {TEXT("a,label\n"), XSM_ERROR_DATA, 0, 0, "no rows", AUTO},
    {TEXT("a,b,c\n1,2,3\n"), FORMAT, 1, 1, "'a', 'b', 'c'", CSV},
    {TEXT("\n\na,b,c\n1,2,3\n"), FORMAT, 3, 1, "no column 'label'", CSV},
    {TEXT("a,kind\n1,2\n"), FORMAT, 1, 1, "no column 'label'", CSV},
    {TEXT("label,a,label\n1,2,3\n"), FORMAT, 1, 9, "second column", AUTO},
    {TEXT("label\n1\n"), FORMAT, 1, 1, "no column beside", CSV},
    {TEXT("a,label\n1,2,3\n"), FORMAT, 2, 5, "more than 2 fields", AUTO},
    {TEXT("a,label,b\n1,2,3\n1,2\n"), FORMAT, 3, 4, "2 fields; the header line has 3", AUTO},
    {TEXT("a,label\n,2\n"), FORMAT, 2, 1, "an empty field", AUTO},
    {TEXT("label,a\n2,\n"), FORMAT, 2, 3, "an empty field", AUTO},
    {TEXT("label,a,b\n2, ,1\n"), FORMAT, 2, 4, "an empty field", AUTO},
    {TEXT("a,label\nx,2\n"), FORMAT, 2, 1, "expected a number, found 'x'", AUTO},
    {TEXT("a,label\n1.5x,2\n"), FORMAT, 2, 4, "found 'x'", AUTO},
    {TEXT("a,label\n1 5,2\n"), FORMAT, 2, 3, "found '5'", AUTO},
    {TEXT("a,label\n1;5,2\n"), FORMAT, 2, 2, "found ';5'", AUTO},
    {TEXT("a,label\n1.205.102,2\n"), FORMAT, 2, 6, "nothing between thousands and nothing behind it", AUTO},
    {TEXT("a,label\n20%,2\n"), FORMAT, 2, 3, "a date or a share needs a number", AUTO},
    {TEXT("a,label\nnan,2\n"), FORMAT, 2, 1, "finite", AUTO},
    {TEXT("a,label\n1e99,2\n"), FORMAT, 2, 1, "float32", AUTO},
    {TEXT("a,label\n\"1\n"), FORMAT, 2, 1, "does not end", AUTO},
    {TEXT("a,label\n1,\"x\n\ny\n"), FORMAT, 2, 3, "does not end", AUTO},
    {TEXT("a,label\n1,\"x\"y\n"), FORMAT, 2, 6, "after a closing quote", AUTO},
    {TEXT("a,label,b\n1,\"x\ny\"z,2\n"), FORMAT, 3, 3, "after a closing quote", AUTO},
    {TEXT("a,label,b\n1,\"x\ny\",2\n"), FORMAT, 2, 3, "a line end in a label", AUTO},
    {TEXT("label,a\nx,1\nx\ry,2\n"), FORMAT, 3, 1, "a line end in a label", AUTO},
    {TEXT("a,label,\"b\nc\"\n1,x,\"2q\"\n"), FORMAT, 3, 7, "found 'q'", AUTO},
    {TEXT("a,label,\"b\nc\"\n1,x\n"), FORMAT, 3, 4, "2 fields", AUTO},
    {TEXT("a,label\n\"1\"\"2\",3\n"), FORMAT, 2, 3, "found '\"2'", AUTO},
    {TEXT("a,label\n1,\xFFx\n"), FORMAT, 2, 3, "0xFF", AUTO},
    {TEXT("a,label\n1,\"ab\xC3\"\n"), FORMAT, 2, 6, "0xC3", AUTO},
    {TEXT("a,label\n1,a\0b\n"), FORMAT, 2, 4, "0x00", AUTO},
    {TEXT("a,label,b\n1,2,3\n"), FORMAT, 1, 1, "2 columns of features; 3 are expected", WITH(.features = 3)},
    {TEXT("a,label,b\n1,2,3\n"), FORMAT, 1, 1, "2 columns of features; 1 are expected", WITH(.features = 1)},
    {TEXT("a,label,b\n1,2,3\n"), FORMAT, 1, 1, "the class map has 3 features, the file 2 columns",
     WITH(.classes = &map_of_three)},
    {TEXT("a,b\n1,2\n"), FORMAT, 1, 1, "no column 'label'", WITH(.classes = &map_of_three, .format = XSM_FORMAT_CSV)},
    {TEXT("a,b\n1,2\n"), FORMAT, 1, 1, "the class map has 3 features, the file 2 columns: 'a', 'b'",
     WITH(.classes = &map_of_three)},
    {TEXT("a,b c\n1,2\n"), FORMAT, 1, 1,
     "no column 'label'; the columns, with commas between, are 'a', 'b c'; name the label's", AUTO},
    {TEXT("a,2\n1,2\n"), FORMAT, 1, 1, "cannot be recognised", AUTO},
    {TEXT("1,.5\n4,5,6\n"), FORMAT, 1, 1, "no column 'label' (xsm_read_options.label_column), and the class map has 3",
     WITH(.classes = &map_of_three)},
    {TEXT("1.5,2,3\n4,5,6\n"), FORMAT, 1, 1, "without a header line columns have numbers, from 0 to 2", AUTO},
    {TEXT("1.5,2,3\n4,5\n"), FORMAT, 2, 4, "2 fields; the first row has 3", WITH(.label_column = "0")},
    {TEXT("0,1,2,x\n4,5,6,y\n"), FORMAT, 1, 1, "names of columns or a row? '0', '1', '2', 'x'",
     WITH(.label_column = "-1")},
    {TEXT("a\tb\nc\td\n"), FORMAT, 1, 1, "names of columns or a row?", WITH(.label_column = "0", .text_column = "1")},
    {TEXT("good\tI like it\nbad\tnot it\n"), FORMAT, 1, 1,
     "if this line is a row: xsm_read_options.header = XSM_HEADER_NO, and xsm_read_options.label_column 0", AUTO},
    {TEXT("a,label\n1,x\n"), FORMAT, 1, 1, "no column 'id' (xsm_read_options.ignore_columns)",
     WITH(.ignore_columns = "id")},
    {TEXT("a,label\n1,x\n"), FORMAT, 1, 1, "no column '7' (xsm_read_options.text_column)", WITH(.text_column = "7")},
    {TEXT("a,label\n1,x\n"), XSM_ERROR_ARGUMENT, 0, 0, "has another use", WITH(.ignore_columns = "label")},
    {TEXT("a,label\n1,x;;y\n"), FORMAT, 2, 5, "an empty label", WITH(.label_separator = ";")},
    {TEXT(",a,label\n0.5,1,x\n"), FORMAT, 2, 1, "a fraction in a column that numbers", AUTO},
    {TEXT("label;a\nx;1,5\n"), FORMAT, 2, 4, "found ',5' in the column 'a'; a number has a decimal point", AUTO},
    {TEXT("label,a\nx,TRUEISH\n"), FORMAT, 2, 3, "found 'TRUEISH' in the column 'a'; a column of words", AUTO},
    {TEXT("# Column indices are one-based\n1 0:2\n"), FORMAT, 2, 3, "feature indexes start at 1 here", AUTO},
    {TEXT("a,b,label\n1,2,x\na,b,label\n"), FORMAT, 3, 1, "the names of columns again", AUTO},
    {TEXT("label,a\nx,1\n\xEF\xBB\xBFlabel,a\n"), FORMAT, 3, 1, "the names of columns again", AUTO},
    {TEXT("a,city,label\n1,Rome,x\n"), FORMAT, 2, 3, "found 'Rome' in the column 'city'; a column of words", AUTO},
    {TEXT("a,label\n7,1,x\n"), FORMAT, 2, 5, "2; if rows begin with their names or numbers", AUTO},
    {TEXT("a,age,label\n1,NA,x\n"), FORMAT, 2, 3, "found 'NA' in the column 'age'; missing values are not read", AUTO},
    {TEXT("a,age,label\n1,nan,x\n"), FORMAT, 2, 3, "in the column 'age'; missing values are not read", AUTO},
    {TEXT("a,b,c\n1,2\n"), FORMAT, 2, 4, "2 fields; the header line has 3", WITH(.classes = &map_of_three)},
    {TEXT("a\tlabel\n1\t2\t\n"), FORMAT, 2, 5, "more than 2 fields", AUTO},
    {TEXT("a\tlabel\n1,5\t2\n"), FORMAT, 2, 2, "found ',5'", AUTO},
    /* text */
    {TEXT(""), XSM_ERROR_DATA, 0, 0, "no rows", WORDS},
    {TEXT("\xEF\xBB\xBF"), XSM_ERROR_DATA, 0, 0, "no rows", WORDS},
    {TEXT("\n\n"), XSM_ERROR_DATA, 0, 0, "no word occurs 1 times", WORDS},
    {TEXT("a b\nb\n"), XSM_ERROR_DATA, 0, 0, "no word occurs 3 times",
     WITH(.format = XSM_FORMAT_TEXT, .text = &thrice)},
    {TEXT("__label__a b\nc \xFF\n"), FORMAT, 2, 3, "byte 0xFF", AUTO},
    {TEXT("__label__a b\nc d\xC3\n"), FORMAT, 2, 4, "byte 0xC3", AUTO},
    {TEXT("__label__a b\0c\n"), FORMAT, 1, 13, "byte 0x00", AUTO},
    {TEXT("__label__a b\nc __label__\n"), FORMAT, 2, 3, "name behind '__label__'", AUTO},
    {TEXT("__label__a b\n\tc __label__ d\n"), FORMAT, 2, 4, "name behind '__label__'", AUTO},
    {TEXT("#a b\n# c\n"), FORMAT, 2, 1, "name behind '#'", WITH(.text = &hashes)},
    {TEXT("__label__a b c\n"), XSM_ERROR_RANGE, 0, 0, "2 features", WITH(.features = 1)},
    {TEXT("__label__a b c\n"), XSM_ERROR_ARGUMENT, 0, 0, "the class map has none", WITH(.classes = &map_of_three)},
    {TEXT("__label__a b c\n"), XSM_ERROR_LIMIT, 0, 0, "2147483646 buckets", WITH(.text = &many_buckets)},
/* NumPy: rows of 2 GiB and more, of which some bytes are there */
#if SIZE_MAX > UINT32_MAX
    {TEXT(NPY("\x43", "<f4", "(4, 539553792)") "0123"), FORMAT, 0, 0, "it ends in row 0 (from 0) of 4", ARRAY},
    {TEXT(NPY("\x44", "<f8", "(1, 2147483647)")), FORMAT, 0, 0, "it ends in row 0 (from 0) of 1", ARRAY},
    {TEXT(NPY("\x44", "<f4", "(1, 2147483649)") "0123"), XSM_ERROR_LIMIT, 0, 0, "2147483648 columns of features",
     ARRAY},
#else
    {TEXT(NPY("\x43", "<f4", "(4, 539553792)") "0123"), XSM_ERROR_LIMIT, 0, 0, "539553792 columns", ARRAY},
    {TEXT(NPY("\x44", "<f8", "(1, 2147483647)")), XSM_ERROR_LIMIT, 0, 0, "2147483647 columns", ARRAY},
    {TEXT(NPY("\x44", "<f4", "(1, 2147483649)") "0123"), XSM_ERROR_LIMIT, 0, 0, "2147483649 columns", ARRAY},
#endif
#ifdef TEST_ZLIB
    {TEXT("\x1F\x8B"), FORMAT, 0, 0, "too early", AUTO},
    {TEXT("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03"), FORMAT, 0, 0, "too early, after 10", AUTO},
    {TEXT("\x1F\x8B\x07\x00\x00\x00\x00\x00\x00\x03\x03\x00"), FORMAT, 0, 0, "damaged gzip data", AUTO},
    {TEXT("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03\xFF\xFF"), FORMAT, 0, 0, "damaged gzip data", AUTO},
    {TEXT("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00"), FORMAT, 0, 0,
     "damaged gzip data", AUTO},
    {TEXT("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"), XSM_ERROR_DATA, 0, 0,
     "empty", AUTO},
    {TEXT("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00rest"), FORMAT, 0, 0,
     "after the end of the gzip data", AUTO},
#endif
};

TEST(malformed)
{
    xsm_dataset *const untouched = (xsm_dataset *)(uintptr_t)64;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bad *c = &cases[i];
        for (size_t step = 0; step < 3; step++) {
            xsm_dataset *d = untouched;
            test_bytes bytes = {c->text, c->size, step, SIZE_MAX, 0};
            xsm_status status =
                xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "some/file.txt"), &c->options, &d, &err);
            char place[64];
            snprintf(place, sizeof place, "line %llu, column %llu", (unsigned long long)c->line,
                     (unsigned long long)c->column);
            if (status != c->status || err.status != c->status || err.line != c->line || err.column != c->column ||
                d != untouched || !strstr(err.message, c->says) || !strstr(err.message, "some/file.txt") ||
                (c->line > 0 && !strstr(err.message, place)) || strlen(err.message) > 450) {
                fail_msg("case %zu, '%s': expected %s at %llu:%llu saying %s; got %s at %llu:%llu: %s", i, c->text,
                         xsm_status_name(c->status), (unsigned long long)c->line, (unsigned long long)c->column,
                         c->says, xsm_status_name(status), (unsigned long long)err.line, (unsigned long long)err.column,
                         err.message);
            }
            /* Without an error to fill the status is the same. */
            bytes.position = 0;
            assert_int_equal(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, NULL), &c->options, &d, NULL), c->status);
        }
    }
    print_message("%zu malformed inputs\n", sizeof cases / sizeof *cases);
}

/* The same in a file as from a source. */
TEST(malformed_files)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsm_dataset *d = NULL;
        const char *path = test_file("malformed", cases[i].text, cases[i].size);
        assert_fails(xsm_dataset_read(NULL, path, NULL, &cases[i].options, &d, &err), cases[i].status, err);
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(err.column, cases[i].column);
        assert_non_null(strstr(err.message, path));
        assert_null(d);
    }
}

/* Nothing is leaked by a failure, and running out of memory on the way to it changes nothing. */
static xsm_status run_read(void *state, xsm_context *ctx, xsm_error *err)
{
    const bad *c = state;
    test_bytes bytes = {c->text, c->size, 0, SIZE_MAX, 0};
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), &c->options, &d, err);
    assert_null(d);
    assert_true(status == XSM_ERROR_MEMORY || status == c->status);
    return status == c->status ? XSM_OK : status;
}

TEST(no_leaks)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bad c = cases[i];
        assert_true(test_every_allocation(run_read, &c) > 1);
    }
}

/* -- what a header promises ---------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 20 };

static void *allocate_little(void *user, size_t size, size_t alignment)
{
    size_t *largest = user;
    void *memory = NULL;
    *largest = size > *largest ? size : *largest;
    return size <= MOST_BYTES &&
                   posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, size) == 0
               ? memory
               : NULL;
}

static void release_little(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

/* A file of some bytes is refused for what is wrong with it, by a host that has little memory, too. */
TEST(little_memory)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsm_dataset *d = NULL;
        size_t largest = 0;
        const xsm_allocator allocator = {sizeof allocator, &largest, allocate_little, release_little};
        xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
        options.allocator = &allocator;
        options.threads = 1;
        MADE(xsm_context, ctx, xsm_context_new(&options, &ctx, &err));
        test_bytes bytes = {cases[i].text, cases[i].size, 0, SIZE_MAX, 0};
        const xsm_status status =
            xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "some file"), &cases[i].options, &d, &err);
        if (status != cases[i].status || largest > MOST_BYTES) {
            fail_msg("case %zu, '%s', takes %zu bytes at once: %s", i, cases[i].text, largest, err.message);
        }
    }
}
