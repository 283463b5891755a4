/*
 * Files as they are found: kinds that are not read are named with a command that makes them readable, and what other
 * programs write is read.
 */
#include "rows.h"
#include "support.h"

#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS(...)                                                                                                   \
    {                                                                                                                  \
        .size = sizeof(xsm_read_options), __VA_ARGS__                                                                  \
    }
#define AUTO OPTIONS(.format = 0)

static xsm_status read_bytes(xsm_context *context, const void *data, size_t size, size_t step,
                             const xsm_read_options *options, xsm_dataset **out, xsm_error *err)
{
    test_bytes bytes = {data, size, step, SIZE_MAX, 0};
    return xsm_dataset_read(context, NULL, TEST_BYTES(&bytes, "input"), options, out, err);
}

/* -- kinds that are not read --------------------------------------------------------------------------------------- */

typedef struct foreign {
    const char *text;
    size_t size;
    const char *says;
} foreign;

#define TAR_NAME "rows.txt\0\0"
#define TEN(c) c c c c c c c c c c
#define NUL10 "\0\0\0\0\0\0\0\0\0\0"

static const foreign kinds[] = {
    {TEXT("\xFD\x37zXZ\0\0\x04"), "xz -dc FILE"},
    {TEXT("BZh91AY&SY\x12\x34"), "bzip2 -dc FILE"},
    {TEXT("\x28\xB5\x2F\xFD\x04"), "zstd -dc FILE"},
    {TEXT("PK\x03\x04\x14\0\0\0\x08\0" NUL10 NUL10 "rows.txt"), "unzip -p FILE"},
    {TEXT("PK\x03\x04\x14\0\0\0\x08\0" NUL10 "\0\0\0\0\0\0\x13\0\0\0[Content_Types].xml"), "libreoffice"},
    {TEXT(TAR_NAME TEN(NUL10) TEN(NUL10) NUL10 NUL10 NUL10 NUL10 "\0\0\0\0\0\0\0ustar  \0"), "tar -xOf FILE"},
    {TEXT("PAR1\x15\x04"), "read_parquet('FILE')"},
    {TEXT("PAR1\0\0\0\0"), "read_parquet('FILE')"},
    {TEXT("PK\x03\x04\0\0\0\0\0\0" NUL10 "\0\0\0\0\0\0\x0E\0\0\0model/data.pkl"), "torch.load('FILE')"},
    {TEXT("{\\rtf1\\ansi x\n"), "an RTF document"},
    {TEXT("ARROW1\0\0"), "read_feather('FILE')"},
    {TEXT("\x89HDF\r\n\x1A\n"), "h5py.File('FILE')"},
    {TEXT("MATLAB 5.0 MAT-file, Platform: GLNXA64"), "scipy.io.loadmat('FILE')"},
    {TEXT("\x80\x04\x95\x10"), "pickle.load(open('FILE', 'rb'))"},
    {TEXT("SQLite format 3\0\x10"), "sqlite3 -header -csv FILE"},
    {TEXT("%PDF-1.4\n"), "pdftotext"},
    {TEXT("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), "libreoffice"},
    {TEXT("\x89PNG\r\n\x1A\n"), "PIL.Image.open('FILE')"},
    {TEXT("\0\0\x08\x03\0\0\0\x0A"), "MNIST"},
    {TEXT("\xBA\x16\x4F\x2F\x0C\0\0\0"), "a model of fastText; rows of data are wanted"},
    {TEXT("\xFF\xFE\061\0 \0"), "iconv -f UTF-16 "},
    {TEXT("\xFE\xFF\0\061\0 "), "iconv -f UTF-16 "},
    {TEXT("1\0 \0\061\0"), "iconv -f UTF-16LE "},
    {TEXT("\0\061\0 \0\061"), "iconv -f UTF-16BE "},
    {TEXT("\n  <!DOCTYPE html>\n"), "read_html('FILE')"},
    {TEXT("{\"a\": 1, \"b\": [2, 3]}\n"), "read_json('FILE', lines=True)"},
    {TEXT("[{\"a\": 1, \"label\": \"x\"}]\n"), "read_json('FILE')"},
    {TEXT("% 1. Title\n%\n\n @relation iris\n"), "ARFF"},
    {TEXT("@RELATION iris\n"), "/d; /^%/d; /^[[:space:]]*$/d' FILE >rows.csv (a table"},
#ifdef TEST_ZLIB
    {TEXT("\037\213\010\000\000\000\000\000\002\003\373\377\317\220\101\201\001\000\065\137\021\177\006\000\000\000"),
     "gzip -dc FILE >rows.unpacked; iconv -f UTF-16 -t UTF-8 rows.unpacked >rows.txt"},
    {TEXT("\037\213\010\000\000\000\000\000\002\003\253\126\112\124\262\122\060\254\345\002\000\372\241\107\134\011\000"
          "\000\000"),
     "gzip -dc FILE >rows.unpacked; python3 -c \"import pandas; pandas.read_json('rows.unpacked'"},
#endif
    {TEXT("%%MatrixMarket matrix coordinate real general\n"), "scipy.io.mmread('FILE')"},
    {TEXT("sep=;\nx;label\n1;a\n"), "sed 1d FILE"},
    {TEXT("-1 2.0 'tag|f a:1 b\n"), "/__label__\\1 /; s/\\|[^ ]*//g; s/:[-+.0-9e]+//g' FILE"},
    {TEXT("1 | a b\n"), "makes LIBSVM's rows"},
};

TEST(kinds_are_named)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        /* These are recognised by bytes that a slow source has not given yet. */
        for (size_t step = 0;
             step <
             (strstr(kinds[i].says, "tar") || strstr(kinds[i].says, "16LE") || strstr(kinds[i].says, "16BE") ? 1 : 3);
             step++) {
            xsm_dataset *d = NULL;
            const xsm_read_options options = OPTIONS(.format = XSM_FORMAT_AUTO);
            assert_fails(read_bytes(NULL, kinds[i].text, kinds[i].size, step, &options, &d, &err),
                         XSM_ERROR_UNSUPPORTED, err);
            assert_null(d);
            if (!strstr(err.message, kinds[i].says)) {
                fail_msg("kind %zu: '%s' lacks '%s'", i, err.message, kinds[i].says);
            }
        }
    }
}

/* The command has the file's own name, if a shell takes it as it is. */
TEST(commands_name_the_file)
{
    xsm_dataset *d = NULL;
    const char *path = test_file("rows.xz", kinds[0].text, kinds[0].size);
    char command[400];
    snprintf(command, sizeof command, "xz -dc %s >", path);
    assert_fails(xsm_dataset_read(NULL, path, NULL, NULL, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, command));
    path = test_file("a row's.xz", kinds[0].text, kinds[0].size);
    assert_fails(xsm_dataset_read(NULL, path, NULL, NULL, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "xz -dc FILE >"));
}

/* Text that begins like one of them is read. */
TEST(text_may_begin_so)
{
    static const foreign texts[] = {{TEXT("BZh label\n"), ""},
                                    {TEXT("PK 1 __label__x\n"), ""},
                                    {TEXT("MATLAB is __label__x\n"), ""},
                                    {TEXT("{\"a __label__x\n"), ""},
                                    {TEXT("%PDF __label__x\n"), ""},
                                    {TEXT("PAR1 __label__x\n"), ""},
                                    {TEXT("{\\r __label__x\n"), ""},
                                    {TEXT("PAR1"), ""},
                                    {TEXT("P"), ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t step = 0; step < 2; step++) {
            const xsm_read_options options = OPTIONS(.format = XSM_FORMAT_TEXT);
            MADE(xsm_dataset, d, read_bytes(NULL, texts[i].text, texts[i].size, step, &options, &d, &err));
            assert_int_equal(d->rows, 1);
        }
    }
}

/* -- what others write --------------------------------------------------------------------------------------------- */

typedef struct good {
    const char *text;
    size_t size;
    const char *expected, *note; /* note: a part of what is logged; NULL = nothing is */
    xsm_read_options options;
} good;

#define SUM .duplicates = XSM_DUPLICATES_SUM
#define REPLACE .bad_bytes = XSM_BAD_BYTES_REPLACE

static const good goods[] = {
    /* a feature named twice */
    {TEXT("1 3:1 1:2 3:0.5\n"), "3 1[1]: 0 0:2 2:1.5", NULL, OPTIONS(SUM)},
    {TEXT("1 1:1 1:2\n2 1:1 1:-1 2:1\n"), "2 2[1,2]: 0 0:3; 1 1:1", NULL, OPTIONS(SUM)},
    {TEXT("1 5 5\n1 1:2 3:1 1:3 1:1\n"), "5 1[1]: 0 1:6 3:1", NULL, OPTIONS(SUM)},
    /* query ids, blanks before labels */
    {TEXT("3 qid:1 1:1\n1 qid:2 2:1 # x\n2 3:1\n"), "3 3[1,2,3]: 2 0:1; 0 1:1; 1 2:1", "2 rows have a query id", AUTO},
    {TEXT(" 3 1:1\n\t-1 2:1\n 2:5\n 7\n"), "2 3[-1,3,7]: 1 0:1; 0 1:1;  1:5; 2", NULL, AUTO},
    /* commas between labels */
    {TEXT("__label__a, __label__b, x y\n__label__b x\n"), "2 3[a,,b,b,]: 0,2 0:1 1:1; 1 0:1",
     "2 labels have a comma, a semicolon, a bar, a quote or a wide blank within, the first is '__label__a,' in line 1",
     AUTO},
    {TEXT("__label__b x\n__label__a,hello x\n__label__b|c x\n"), "1 3[a,hello,b,b|c]: 1 0:1; 0 0:1; 2 0:1",
     "2 labels have a comma, a semicolon, a bar, a quote or a wide blank within, the first is '__label__a,hello' in "
     "line 2",
     AUTO},
    {TEXT("__label__a;b x\n"), "1 1[a;b]: 0 0:1", "1 labels have a comma", AUTO},
    {TEXT("__label__a\xC2\xA0y x\n"), "1 1[a\xC2\xA0y]: 0 0:1", "1 labels have a comma", AUTO},
    {TEXT("__label__a\xE3\x80\x80y x\n"), "1 1[a\xE3\x80\x80y]: 0 0:1", "1 labels have", AUTO},
    {TEXT("__label__a/b-c.d&e__f x\n"), "1 1[a/b-c.d&e__f]: 0 0:1", NULL, AUTO},
    {TEXT("#c# x\n"), "1 1[c#]: 0 0:1", NULL,
     OPTIONS(.format = XSM_FORMAT_TEXT, .text = STRUCT(xsm_text_options, .label_prefix = "#"))},
    /* labels at the end */
    {TEXT("x y __label__a\ny z, t __label__b __label__c\n"), "4 3[a,b,c]: 0 0:1 2:1; 1,2 0:1 1:1 3:1", NULL, AUTO},
    {TEXT("x, y; __label__a\n"), "2 1[a]: 0 0:1 1:1", NULL, AUTO},
    /* what looks like a label, but is none */
    {TEXT("__label__a x\n\"__label__b x, y\"\n"), "4 1[a]: 0 1:1;  0:1 2:1 3:1",
     "1 words look like labels, which begin with __label__ (xsm_text_options.label_prefix), and are words, the first "
     "is "
     "'\"__label__b' in line 2; lines in quotes",
     AUTO},
    {TEXT("__label__a x\n\xE2\x80\x8B__label__b\n"), "2 1[a]: 0 0:1;  1:1", "1 words look like labels", AUTO},
    {TEXT("__label__a x\nx x,__label__b\n"), "2 1[a]: 0 0:1;  0:1 1:1", "1 words look like labels", AUTO},
    {TEXT("__label__a x\n_label_b x\n__Label__c x\n__LABEL__d x\n"), "4 1[a]: 0 0:1;  0:1 3:1;  0:1 2:1;  0:1 1:1",
     "3 words look like labels, which begin with __label__ (xsm_text_options.label_prefix), and are words, the first "
     "is "
     "'_label_b' in line 2",
     AUTO},
    {TEXT("__label__a label_ x\nlabel-free\nlabels_x\nlabel\n"), "5 1[a]: 0 2:1 4:1;  1:1;  3:1;  0:1", NULL, AUTO},
    /* files that begin with a byte order mark, joined */
    {TEXT("\xEF\xBB\xBF__label__a x\n\xEF\xBB\xBF__label__b x\n\xEF\xBB\xBFx\n"), "1 2[a,b]: 0 0:1; 1 0:1;  0:1", NULL,
     AUTO},
    /* bytes that are no UTF-8, as Python replaces them */
    {TEXT("__label__a\xE9 x\n"), "1 1[a\xEF\xBF\xBD]: 0 0:1", "1 times, first in line 1", OPTIONS(REPLACE)},
    {TEXT("__label__\xE2\x82\xE2 x\n__label__a\xF0\x80 x\xFF\n"),
     "2 2[a\xEF\xBF\xBD\xEF\xBF\xBD,\xEF\xBF\xBD\xEF\xBF\xBD]: 1 0:1; 0 1:1", "5 times", OPTIONS(REPLACE)},
    /* U+10000 is above U+FFFD, and F1 below E1 */
    {TEXT("__label__\xF1 x\n__label__b x\n__label__\xE1\x80\x80 x\n__label__\xF0\x90\x80\x80 x\n__label__\xF1 x\n"),
     "1 4[b,\xE1\x80\x80,\xEF\xBF\xBD,\xF0\x90\x80\x80]: 2 0:1; 0 0:1; 1 0:1; 3 0:1; 2 0:1",
     "1 classes have names with U+FFFD in place", OPTIONS(REPLACE)},
    {TEXT("a,label\n1,x\xFF\n2,x\n"), "1 2[x,x\xEF\xBF\xBD]: 1 1; 0 2", "first in line 2", OPTIONS(REPLACE)},
    /* tables without a header line */
    {TEXT("5.1,3,setosa\n4,2,virginica\n"), "2 2[setosa,virginica]: 0 5.1 3; 1 4 2", "line 1 is read as a row",
     OPTIONS(.label_column = "-1")},
    {TEXT("5.1,3,2\n4,2,1\n"), "2 2[1,2]: 1 5.1 3; 0 4 2", "line 1 is read as a row", OPTIONS(.label_column = "2")},
    {TEXT("5.1,3,2\n4,2,1\n"), "2 2[1,2]: 1 5.1 3; 0 4 2", NULL, OPTIONS(.label_column = "2", .header = XSM_HEADER_NO)},
    {TEXT("5,?,2\n4,2,1\n"), "1 2[1,2]: 1 5; 0 4", "line 1 is read as a row",
     OPTIONS(.label_column = "2", .ignore_columns = "1")},
    {TEXT("7 5 6\n4 2 3\n"), "2 2[4,7]: 1 5 6; 0 2 3", "line 1 is read as a row",
     OPTIONS(.label_column = "0", .separator = " ")},
    {TEXT("  7   5 6 \n4 2  3\n"), "2 2[4,7]: 1 5 6; 0 2 3", NULL,
     OPTIONS(.label_column = "0", .separator = " ", .header = XSM_HEADER_NO)},
    {TEXT("0,1,2,x\n7,8,9,y\n"), "3 2[x,y]: 0 0 1 2; 1 7 8 9", NULL,
     OPTIONS(.label_column = "3", .header = XSM_HEADER_NO)},
    /* names that are numbers: by name first */
    {TEXT("0,1,2,3\n7,8,9,5\n"), "3 1[9]: 0 7 8 5", "line 1 is read as names", OPTIONS(.label_column = "2")},
    {TEXT("-,n,a\n2,3,b\n"), "2 1[b]: 0 2 3", "line 1 is read as names", OPTIONS(.label_column = "-1")},
    {TEXT("p,q,a\n2,3,b\n"), "2 1[b]: 0 2 3", NULL, OPTIONS(.label_column = "a")},
    /* blanks around names, labels and quotes */
    {TEXT(" a, label \n1, x\n2,x\t\n3,\" x\"\n4, \n"), "1 2[ x,x]: 1 1; 1 2; 0 3;  4",
     "1 labels look like another one, the first is 'x' beside ' x'", AUTO},
    {TEXT("\"a\" ; \"label\"\n1; \"x;\"\"y\"\n2;\"x;\"\"y\"  \n"), "1 1[x;\"y]: 0 1; 0 2", "2 labels have a comma",
     AUTO},
    {TEXT("a\tlabel\n1\t \"x\"\n2\tx \n"), "1 1[x]: 0 1; 0 2", NULL, AUTO},
    /* labels that stand for none elsewhere */
    {TEXT("a,label\n1,x\n2,NA\n3,-\n4,\n"), "1 3[-,NA,x]: 2 1; 1 2; 0 3;  4",
     "2 labels are NA, '-' or the like, first in line 3", AUTO},
    {TEXT("a,label\n1,#N/A\n2,nan\n"), "1 2[#N/A,nan]: 0 1; 1 2", "2 labels are NA", AUTO},
    {TEXT("a,label\n1,--\n2,Nan\n"), "1 2[--,Nan]: 0 1; 1 2", NULL, AUTO},
    {TEXT("3,2,1,0\n7,8,9,5\n"), "3 1[9]: 0 7 8 5", NULL, OPTIONS(.label_column = "1", .header = XSM_HEADER_YES)},
    /* separators */
    {TEXT("a;b;label\n1;2;x\n"), "2 1[x]: 0 1 2", NULL, AUTO},
    {TEXT("\"a\";\"label\"\n1;\"x,y\"\n"), "1 1[x,y]: 0 1", "1 labels have a comma", AUTO},
    {TEXT("a,label\n1,x\n2,x;y\n3,y|x\n4,x\xC2\xA0\n"), "1 4[x,x;y,x\xC2\xA0,y|x]: 0 1; 1 2; 3 3; 2 4",
     "3 labels have a comma, a semicolon, a bar or a wide blank within, the first is 'x;y' in line 3", AUTO},
    {TEXT("a|b|label\n1|2|x\n"), "2 1[x]: 0 1 2", NULL, AUTO},
    {TEXT("a, b;label\n1;x\n"), "1 1[x]: 0 1", NULL, AUTO},
    {TEXT("\"p;q\",2.5\nr,1\n"), "1 2[p;q,r]: 0 2.5; 1 1", "1 labels have a comma, a semicolon",
     OPTIONS(.label_column = "0", .header = XSM_HEADER_NO)},
    {TEXT("1.234,5;2\n2.5;3\n"), "1 2[1.234,5,2.5]: 0 2; 1 3", "have a comma",
     OPTIONS(.label_column = "0", .header = XSM_HEADER_NO, .separator = ";")},
    {TEXT("1;x|y|z|u\n"), "1 4[u,x,y,z]: 1,2,3,0 1", NULL,
     OPTIONS(.label_column = "1", .header = XSM_HEADER_NO, .label_separator = "|")},
    {TEXT("a^label\n1^x\n"), "1 1[x]: 0 1", NULL, OPTIONS(.separator = "^")},
    {TEXT("a\tlabel\n1\tx\n"), "1 1[x]: 0 1", NULL, OPTIONS(.separator = "\t", .format = XSM_FORMAT_CSV)},
    /* columns that are no features */
    {TEXT("id,a,when,label\n7,1,\"1, 2\",x\n"), "1 1[x]: 0 1", NULL, OPTIONS(.ignore_columns = "id,when")},
    {TEXT("id,a,when,label\n7,1,\"1, 2\",x\n"), "1 1[x]: 0 1", NULL, OPTIONS(.ignore_columns = "0,-2")},
    {TEXT(",a,label\n0,5,x\n1,6,y\n"), "1 2[x,y]: 0 5; 1 6", "the first column, which has no name, is left out", AUTO},
    {TEXT("\"\",\"a\",\"label\"\n\"r1\",5,\"x\"\n"), "1 1[x]: 0 5", "which has no name, is left out", AUTO},
    {TEXT("Unnamed: 0,a,label\n17,5,x\n"), "1 1[x]: 0 5", "'Unnamed: 0', is left out", AUTO},
    {TEXT(",Unnamed: 0.1,a,Unnamed: 0,label\n1,2,5,3,x\n"), "1 1[x]: 0 5", "the column, 'Unnamed: 0', is left out",
     AUTO},
    {TEXT("Unnamed: 0x,Unnamed: 1,label\n1,2,x\n"), "2 1[x]: 0 1 2", NULL, AUTO},
    /* scikit-learn's comment says where features begin */
    {TEXT("# Generated by x\n# Column indices are zero-based\n#\n4 1:1\n5 2:3\n"), "3 2[4,5]: 0 1:1; 1 2:3", NULL,
     AUTO},
    {TEXT("# Column indices are one-based\n4 2:1\n"), "2 1[4]: 0 1:1", NULL, AUTO},
    /* tables that begin with a byte order mark, joined */
    {TEXT("\xEF\xBB\xBF"
          "a,label\n1,x\n\xEF\xBB\xBF"
          "2,y\n\xEF\xBB\xBF"),
     "1 2[x,y]: 0 1; 1 2", NULL, AUTO},
    {TEXT("label,a\nx,1\n\xEF\xBB\xBFx,2\n"), "1 1[x]: 0 1; 0 2", NULL, AUTO},
    /* several labels in a field */
    {TEXT("a,label\n1,\"x, y\"\n2,y\n3,\n"), "1 2[x,y]: 0,1 1; 1 2;  3", NULL, OPTIONS(.label_separator = ",")},
    {TEXT("a,label\n1,9|10\n"), "1 2[9,10]: 0,1 1", NULL, OPTIONS(.label_separator = "|")},
    {TEXT("a,label\n0,b\n1,\"['a', 'b']\"\n2, [] \n"), "1 4['b'],['a',[],b]: 3 0; 1,0 1; 2 2",
     "2 fields of labels are lists in brackets, as Python and JSON write them, first in line 3",
     OPTIONS(.label_separator = ",")},
    {TEXT("a,label\n1,\"[\"\"a\"\"]\"\n"), "1 1[[\"a\"]]: 0 1", "1 fields of labels are lists", AUTO},
    {TEXT("a,label\n1,[a\n2,b]\n"), "1 2[[a,b]]: 0 1; 1 2", NULL, AUTO},
    {TEXT("a,label\n1,9|10\n"), "1 2[9,10]: 0 1", NULL,
     OPTIONS(.label_separator = "|", .labels = XSM_KEEP_LABELS_SMALLEST)},
    {TEXT("a,label\n1,z b\n"), "1 2[b,z]: 0 1", NULL,
     OPTIONS(.label_separator = " ", .labels = XSM_KEEP_LABELS_SMALLEST)},
    {TEXT("a,label\n1,z b\n"), "1 1[z]: 0 1", NULL, OPTIONS(.label_separator = " ", .labels = XSM_KEEP_LABELS_FIRST)},
    /* text */
    {TEXT("pos\tso so good\nneg\tbad __label__x\n"), "4 2[neg,pos]: 1 0:2 3:1; 0 1:1 2:1", NULL,
     OPTIONS(.header = XSM_HEADER_NO, .label_column = "0", .text_column = "1")},
    {TEXT("pos\tso, so; good\nneg\tbad, x\n"), "5 2[neg,pos]: 1 1:1 2:1 3:1; 0 0:1 4:1", NULL,
     OPTIONS(.header = XSM_HEADER_NO, .label_column = "0", .text_column = "1")},
    {TEXT("id,text,label\n7,\"a, \"\"b\"\"\na\",x\n"), "3 1[x]: 0 0:1 1:1 2:1",
     "columns besides text and labels are left out: 1, the first is 'id'", OPTIONS(.text_column = "text")},
    /* labels that look alike: NFC, NFD and capitals; a zero-width blank */
    {TEXT("__label__caf\xC5\xA1 x\n__label__Cafs\xCC\x8C x\n__label__cafs x\n__label__CAF\xC5\xA0 x\n"),
     "1 4[CAF\xC5\xA0,Cafs\xCC\x8C,cafs,caf\xC5\xA1]: 3 0:1; 1 0:1; 2 0:1; 0 0:1",
     "2 labels look like another one, the first is 'Cafs\xCC\x8C' beside 'CAF\xC5\xA0'", AUTO},
    {TEXT("__label__ab x\n__label__a\xE2\x80\x8D\x62 x\n"), "1 2[ab,a\xE2\x80\x8D\x62]: 0 0:1; 1 0:1",
     "1 labels look like another one", AUTO},
    {TEXT("__label__\"a b\" x\n"), "2 1[\"a]: 0 0:1 1:1", "a quote or a wide blank within", AUTO},
    {TEXT("__label__a:.5 x\n__label__a:2 x\n"), "1 2[a:.5,a:2]: 0 0:1; 1 0:1", "1 labels end in a colon and", AUTO},
    /* XC without labels */
    {TEXT("2 5\n0:1 4:2\n1:.5\n"), "5 0[]:  0:1 4:2;  1:0.5", NULL, AUTO},
    {TEXT("3 5\n\n 4:2\n3:1\n"), "5 0[]: ;  4:2;  3:1", NULL, AUTO},
};

typedef char notes[600];

static void note(void *user, int32_t level, const char *message)
{
    char *n = user;
    if (level == XSM_LOG_WARNING) {
        snprintf(n + strlen(n), sizeof(notes) - strlen(n), "%s\n", message);
    }
}

static xsm_context *noting(char *n)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_context, context, xsm_context_new(STRUCT(xsm_context_options, .log = note, .log_user = n), &context, &err));
    return context;
}

/* Reads a file, of which rows and notes are as expected; or fails with a message that has `expected` in it. */
static void check_file(const good *g, size_t number, size_t step, const xsm_read_options *options, xsm_status wanted)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_dataset, d) = NULL;
    notes n = "";
    HELD(xsm_context, context) = noting(n);
    char text[2000] = "";
    const xsm_status status = read_bytes(context, g->text, g->size, step, options, &d, &err);
    if (status != wanted) {
        fail_msg("case %zu: %s, %s", number, xsm_status_name(status), err.message);
    }
    if (g->expected && d) {
        describe(d, text, sizeof text);
    }
    const bool noted = g->note ? strstr(n, g->note) != NULL : n[0] == '\0';
    if (d ? !noted || (g->expected && strcmp(text, g->expected) != 0) : !strstr(err.message, g->expected)) {
        fail_msg("case %zu: '%s', not '%s'; noted: '%s'", number, d ? text : err.message, g->expected, n);
    }
}

TEST(what_others_write_is_read)
{
    for (size_t i = 0; i < 3 * (sizeof goods / sizeof *goods); i++) {
        check_file(&goods[i / 3], i / 3, i % 3, &goods[i / 3].options, XSM_OK);
    }
}

/* Labels that only bad bytes tell apart stay apart, or are refused. */
TEST(bad_bytes_do_not_join_labels)
{
    static const struct {
        const char *text, *says;
    } files[] = {{"__label__caf\xE9 x\n__label__caf\xE8 y\n", "the labels 'caf\\xE9' and 'caf\\xE8' are one"},
                 {"__label__caf\xEF\xBF\xBD x\n__label__caf\xE9 y\n", "and 'caf\\xE9' are one"},
                 {"a,label\n1,\xE9\n2,x\n3,\xE8\n", "the labels '\\xE9' and '\\xE8' are one"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const good file = {files[i].text, strlen(files[i].text), files[i].says, NULL, OPTIONS(REPLACE)};
        check_file(&file, i, 0, &file.options, XSM_ERROR_FORMAT);
    }
}

/* A label in a label is an error at its place, whatever is between; for a class map it is a word. */
TEST(labels_are_apart)
{
    static const char *const between[] = {"",  ",",  ";", "|", "/", "\xC2\xA0", "\xE3\x80\x80", "\xE2\x80\x8B",
                                          "-", ":1,"};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        for (size_t behind = 0; behind < 2; behind++) {
            xsm_dataset *d = NULL;
            char text[100];
            const int size = snprintf(text, sizeof text, "__label__b x\n y __label__a%s__label__%s x\n", between[i],
                                      behind ? "b" : "");
            const xsm_read_options options = OPTIONS(.label_weights = i % 2);
            assert_fails(read_bytes(NULL, text, (size_t)size, 0, &options, &d, &err), XSM_ERROR_FORMAT, err);
            assert_int_equal(err.line, 2);
            assert_int_equal(err.column, 4 + strlen("__label__a") + strlen(between[i]));
            assert_non_null(strstr(err.message, "a label within a label, '__label__a"));
        }
    }
}

/* Numbers that float32 does not tell apart, or makes zero. Counts are those of numpy.unique(x.astype('f4')), at most.
 */
TEST(rounding_is_told)
{
    static const good files[] = {
        {TEXT("label,t\na,123456.789\nb,123456.790\n"), NULL,
         "1 features differ by less than 1/4096 of their size, the first is 't': of its numbers from 123456.789 to "
         "123456.79 at most 1 are different",
         AUTO},
        {TEXT("label,x,t\na,5,1600000000\nb,6,1600000256\na,7,1600000100\n"), NULL,
         "'t': of its numbers from 1600000000 to 1600000256 at most 3 are different", AUTO},
        {TEXT("label,x,t\na,1,16777216\nb,2,16777217\na,3,0\n"), NULL, "1 features differ by less", AUTO},
        {TEXT("label,t,u\na,-1600000000,1600000000\nb,-1600000001,1600000001\n"), NULL, "2 features differ by less",
         AUTO},
        {TEXT("5,1600000000,1\n6,1600000001,2\n"), NULL, "the first is 1: of its",
         OPTIONS(.label_column = "2", .header = XSM_HEADER_NO)},
        {TEXT("1 1:1600000000 2:1\n2 1:1600000001 2:2\n"), NULL, "the first is 1: of its", AUTO},
        {TEXT("1 1:3 2:1\n2 1:123456.789 2:2\n1 2:3\n1 1:123456.790\n"), NULL, "the first is 1: of its", AUTO},
        {TEXT("2 3 2\n0 1:1600000000\n1 1:1600000001\n"), NULL, "the first is 1: of its", AUTO},
        /* nothing is lost */
        {TEXT("label,t,u\na,1.50,0.1\nb,1.5,0.10\na,15e-1,1e-1\n"), NULL, NULL, AUTO},
        {TEXT("label,t,u\na,1600000000,5000\nb,1600000000,5002\na,1,5003\n"), NULL, NULL, AUTO},
        {TEXT("label,t\na,123456.789\nb,-123456.789\na,0\n"), NULL, NULL, AUTO},
        {TEXT("label,t\na,0.123456789012345678\nb,0.12345678901234567890\n"), NULL, NULL, AUTO},
        {TEXT("1 1:5000 2:1\n2 1:5000 2:2\n1 1:5002 2:1e-3\n"), NULL, NULL, AUTO},
        /* numbers that become zero */
        {TEXT("label,t\na,1e-46\nb,-3.5E-60\na,0e-50\nb,-0.0\nb,1\n"), NULL,
         "2 numbers are 0 in float32, whose least is 1.4e-45, the first in line 2", AUTO},
        {TEXT("label,t\na,1\nb,0.0000000000000000000000000000000000000000000000001\n"), NULL, "the first in line 3",
         AUTO},
        {TEXT("1 1:2\n2 1:1e-50 2:1\n3 2:0\n"), NULL,
         "1 numbers are 0 in float32, whose least is 1.4e-45, the first in line 2", AUTO},
        {TEXT("label,t\na,1e-45\nb,0.000\nb,-0\n"), NULL, NULL, AUTO},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        xsm_read_options options = files[i].options;
        options.index_base = strstr(files[i].text, "label") || options.header ? 0 : XSM_INDEX_BASE_ONE;
        check_file(&files[i], i, 0, &options, XSM_OK);
    }
}

/* -- labels in another file ---------------------------------------------------------------------------------------- */

#define ROWS "3 5\n0:1 4:2\n\n1:.5\n"
#define NO_SIZES "0:1 4:2\n1:.5\n"

static const struct {
    const char *rows, *labels, *expected; /* or a part of the message, of a status that is not OK */
    xsm_status status;
    xsm_read_options options;
} pairs[] = {
    {ROWS, "3 9\n8:1 3:1\n\n0:1\n", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0 1:0.5", XSM_OK, AUTO},
    {ROWS, "3 9\n8:1 3:1\n\n0:1", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0 1:0.5", XSM_OK, OPTIONS(.format = XSM_FORMAT_XC)},
    {ROWS, "8,3\n\n0\n\n\n", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0 1:0.5", XSM_OK, AUTO},
    {ROWS, "8, 3\r\n \r\n0\r\n", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0 1:0.5", XSM_OK, AUTO},
    {NO_SIZES, "2 9\n8\n3\n", "5 2[3,8]: 1 0:1 4:2; 0 1:0.5", XSM_OK, OPTIONS(.format = XSM_FORMAT_XC)},
    {NO_SIZES, "8 3\n3\n", "5 2[3,8]: 1,0 0:1 4:2; 0 1:0.5", XSM_OK, OPTIONS(.format = XSM_FORMAT_XC)},
    {NO_SIZES, "8 3\n3\n", "5 2[3,8]: 1 0:1 4:2; 0 1:0.5", XSM_OK,
     OPTIONS(.format = XSM_FORMAT_XC, .labels = XSM_KEEP_LABELS_FIRST)},
    {NO_SIZES, "8 3\n3\n", "5 1[3]: 0 0:1 4:2; 0 1:0.5", XSM_OK,
     OPTIONS(.format = XSM_FORMAT_XC, .labels = XSM_KEEP_LABELS_SMALLEST)},
    {ROWS, "3 8\n8:1\n\n0:1\n", "line 2, column 1: label 8; the first line declares 8 labels", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "3 9\n8:1\n0:1\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "4 9\n8:1\n\n0:1\n1:1\n", "labels for 4 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "1\n2\n3\n4\n", "labels for 4 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "", "labels for 0 rows, and", XSM_ERROR_SHAPE, AUTO},
    /* a header of fewer or more rows */
    {ROWS, "2 9\n0:1 1:1\n2:1\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2 9\n0:1 1:1\n2:1", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2 5 9\n0:1 1:1\n2:1\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2 9\n0,1\n2\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2\t9 \r\n0 1\r\n2\r\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2 9\n0\n\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "2 9\n0:1\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "700 9\n0:1\n\n2:1\n", "labels for 700 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "700 9\n0:1\n2:1\n", "labels for 700 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "3 9\n0\n2\n", "labels for 2 rows, and", XSM_ERROR_SHAPE, AUTO},
    {ROWS, "3 5 9\n8:1 3:1\n\n0:1\n", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0 1:0.5", XSM_OK, AUTO},
    {ROWS, "3 5 8\n8:1\n\n0:1\n", "the first line declares 8 labels", XSM_ERROR_FORMAT, AUTO},
    /* numbers that are no header */
    {ROWS, "2,9\n0 1\n2\n", "5 4[0,1,2,9]: 2,3 0:1 4:2; 0,1; 2 1:0.5", XSM_OK, AUTO},
    {ROWS, "7 9\n0 1\n2\n", "5 5[0,1,2,7,9]: 3,4 0:1 4:2; 0,1; 2 1:0.5", XSM_OK, AUTO},
    {ROWS, "2\n0 1\n2\n", "5 3[0,1,2]: 2 0:1 4:2; 0,1; 2 1:0.5", XSM_OK, AUTO},
    {ROWS, "1 2 5 6\n0\n3\n", "5 6[0,1,2,3,5,6]: 1,2,4,5 0:1 4:2; 0; 3 1:0.5", XSM_OK, AUTO},
    {ROWS, "1\n2;3\n4\n", "line 2, column 2: expected a comma or a space", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "1\nx\n4\n", "line 2, column 1: expected a label", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "1,\n2\n4\n", "line 1, column 3: expected a label", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "1:0.5\n2\n4\n", "line 1, column 3: a value other than 1", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "1:-1\n2\n4\n", "line 1, column 3: expected the label's value", XSM_ERROR_FORMAT, AUTO},
    {ROWS, "\x28\xB5\x2F\xFD", "zstd -dc", XSM_ERROR_UNSUPPORTED, AUTO},
    {"1 5 9\n3 1:1\n", "1\n", "row 0 (from 0) has labels", XSM_ERROR_FORMAT, AUTO},
};

TEST(labels_from_another_file)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const good rows = {pairs[i].rows, strlen(pairs[i].rows), pairs[i].expected, NULL, AUTO};
        xsm_read_options options = pairs[i].options;
        options.labels_path = test_file("labels", pairs[i].labels, strlen(pairs[i].labels));
        check_file(&rows, i, 0, &options, pairs[i].status);
    }
}

/* The first of two columns may be the row's number. */
TEST(numbers_of_rows_are_no_labels)
{
    static const struct {
        const char *labels, *says;
    } files[] = {{"0,2\n1,0\n2,1\n", "the first counts the lines from 0"},
                 {"1 2\n2 0\n3 1\n", "the first counts the lines from 1"},
                 {"0,2\n1,0\n2\n", NULL},
                 {"0,2\n1,0\n2,1,3\n", NULL},
                 {"0,2\n1,0\n3,1\n", NULL},
                 {"5,2\n6,0\n7,1\n", NULL}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const good rows = {TEXT(ROWS), NULL, files[i].says, AUTO};
        const xsm_read_options options =
            OPTIONS(.labels_path = test_file("labels", files[i].labels, strlen(files[i].labels)));
        check_file(&rows, i, 0, &options, XSM_OK);
    }
}

/* -- text and what is none, for a class map of text ---------------------------------------------------------------- */

static const struct {
    const char *text, *says; /* a part of the message, or NULL: it is text, */
    uint64_t rows;           /* of so many rows */
} for_text[] = {
    {"2 9 3\n0 1:1 8:2\n1,2 3:1\n", "XC text, and the class map is that of text", 0},
    {"2 9\n0 1:1 8:2\n1,2 3:1\n", "XC text", 0},
    {"1 1:1 2:0.5\n3 4:1e-3\n", "rows of LIBSVM", 0},
    {"-1 qid:3 1:1 2:0.5 # a comment\n", "rows of LIBSVM", 0},
    {"7:1 9:2\n", "rows of LIBSVM", 0},
    {"3 17:1\n5 2:1\n", "rows of LIBSVM", 0},
    {"text,label\nx y,a\n", "a table, and the class map is that of text; if this is text, too: ", 0},
    {"\"id\";\"label\"\n1;a\n", "if one of its columns is: xsm_read_options.text_column", 0},
    {"label\tbody, of text\na\tx y\n", "a table", 0},
    {"% iris\n", NULL, 1},
    {"% iris\n%\n\n@relation iris\n@data\n1,2,a\n", "ARFF, which is not read", 0},
    {"@relation iris\n@data\n1,2,a\n", "ARFF, which is not read", 0},
    {"{\"text\": \"x\"}\n", "JSON lines, which is not read", 0},
    {"[[1, 2], [3, 4]]\n", "JSON, which is not read", 0},
    {"%%MatrixMarket matrix\n1 1 1\n", "Matrix Market", 0},
    {"BZh91AY&SY\x12\x34", "bzip2 -dc", 0},
    {"x y\n", NULL, 1},
    {"\n\nx\n", NULL, 3},
    {"ratio 3:1 of salt\n", NULL, 1},
    {"3:1\n", NULL, 1},
    {"3 17:1\n5 times 2:1\n", NULL, 2},
    {"a, b, c\nd, e, f\n", NULL, 2},
    {"a label, too\nanother, too\n", NULL, 2},
    {"a, label\n", NULL, 1},
    {"3, 4, 5\n", NULL, 1},
    {"2 9 3\nare numbers\n", NULL, 2},
    {"[[link]] of a page\n[[other]]\n", NULL, 2},
    {"a; b | c\td\n", NULL, 1},
    {"__label__ x\n__label__a__label__b y\n1 |f x:1\n", NULL, 3},
};

TEST(rows_meet_text)
{
    xsm_dataset *d;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    MADE(xsm_dataset, made, read_bytes(NULL, TEXT("__label__a x y\n__label__b y z\n"), 0, NULL, &made, &err));
    assert_ok(xsm_dataset_get_class_map(made, &map, &err), err);
    for (size_t i = 0; i < sizeof for_text / sizeof *for_text; i++) {
        const char *const text = for_text[i].text;
        xsm_read_options options = OPTIONS(.classes = &map);
        d = NULL;
        const xsm_status status = read_bytes(NULL, text, strlen(text), 0, &options, &d, &err);
        if ((status == XSM_OK) != !for_text[i].says || (status != XSM_OK && !strstr(err.message, for_text[i].says))) {
            fail_msg("'%s' is read, or not: %s", text, status == XSM_OK ? "" : err.message);
        }
        assert_int_equal(d ? d->rows : 0, for_text[i].rows);
        xsm_dataset_free(d);
        options.format = XSM_FORMAT_TEXT; /* by request it is text, whatever it looks like */
        if (text[0] != 'B') {
            assert_ok(read_bytes(NULL, text, strlen(text), 0, &options, &d, &err), err);
            xsm_dataset_free(d);
        }
    }
}

/* -- header lines that nothing shows ------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    xsm_read_options options;
    const char *says; /* NULL: read, */
    uint64_t rows;    /* as so many rows */
} tops[] = {
    {"3,Wall St.,\"a, b\"\n4,Oil,c\n", OPTIONS(.label_column = "0", .text_column = "2"), "names of columns or a row?",
     0},
    {"a,b,c\nd,e,f\n", OPTIONS(.label_column = "-1", .text_column = "0"), "names of columns or a row?", 0},
    {"0000;<control>;Cc\n0041;LATIN;Lu\n", OPTIONS(.label_column = "2", .text_column = "1", .separator = ";"),
     "names of columns or a row?", 0},
    {"3,Wall St.,a\n4,Oil,c\n", OPTIONS(.label_column = "0", .text_column = "2", .header = XSM_HEADER_NO), NULL, 2},
    {"n,t,label\n4,Oil,c\n", OPTIONS(.text_column = "1"), NULL, 1},
    {"n,t,class\n4,Oil,c\n", OPTIONS(.text_column = "t", .label_column = "2"), NULL, 1},
    {"n,t,class\n4,Oil,c\n", OPTIONS(.text_column = "1", .label_column = "class"), NULL, 1},
    {"1,x?,a\n2,3,b\n", OPTIONS(.label_column = "2"), "names of columns or a row?", 0},
    {"p,q,a\n2,3,b\n", OPTIONS(.label_column = "2"), NULL, 1},
    {"1,2.5,a\n2,3,b\n", OPTIONS(.label_column = "2"), NULL, 2},
};

TEST(no_first_row_is_lost)
{
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        HELD(xsm_dataset, d) = NULL;
        const xsm_status status = read_bytes(NULL, tops[i].text, strlen(tops[i].text), 0, &tops[i].options, &d, &err);
        if ((status == XSM_OK) != !tops[i].says || (status != XSM_OK && !strstr(err.message, tops[i].says))) {
            fail_msg("'%s': %s", tops[i].text, status == XSM_OK ? "it is read" : err.message);
        }
        assert_int_equal(d ? d->rows : 0, tops[i].rows);
    }
}

/* Two separators that split the first line as well, or leave numbers with semicolons between. */
TEST(separators_are_asked_for)
{
    static const struct {
        const char *text, *label, *says;
    } files[] = {
        {"1.234,5;2\n", "-1",
         "2 columns with commas between, the first '1.234', or 2 with semicolons, the first '1.234,5'?"},
        {"\n1,5;2,5;3,5;A\n", "-1", "line 2, column 1: 4 columns with commas between"},
        {"1,5;2,5;3\n", "0", "3 columns with commas"},
        {"1,5;2,5;3,5\n", "0", "4 columns with commas between, the first '1', or 3 with semicolons, the first '1,5'?"},
        {"a;b,c\n", "0", "2 columns with commas"},
        {"a|b,c\n", "0", "or 2 with bars, the first 'a'? set xsm_read_options.separator"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const good file = {files[i].text, strlen(files[i].text), files[i].says, NULL,
                           OPTIONS(.label_column = files[i].label, .header = XSM_HEADER_NO, .format = XSM_FORMAT_CSV)};
        check_file(&file, i, 0, &file.options, XSM_ERROR_FORMAT);
    }
}

/* -- numbers from 0 or from 1 -------------------------------------------------------------------------------------- */

/* LIBSVM that meets features from 0, of which there are three, or a matrix, which has no numbers. */
static const struct {
    const char *text, *expected, *says; /* rows and a note or none; or a part of the message */
    int32_t base, given;
} counted[] = {
    {"0 0:5 2:7\n", "3 2[0,1]: 0 0:5 2:7", NULL, XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_AUTO},
    {"0 1:5 2:7\n", "3 2[0,1]: 0 1:5 2:7", "the least feature number is 1, and is taken to count from 0",
     XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_AUTO},
    {"0 2:7\n1 4:1\n", "3 2[0,1]: 0 2:7; 1", "the least feature number is 2", XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_AUTO},
    {"0 1:5 3:7\n", NULL, "features are numbered from 1 to 3, and those of the class map from 0 to 2",
     XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_AUTO},
    {"0 1:5 3:7\n", "3 2[0,1]: 0 0:5 2:7", NULL, XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_ONE},
    {"0 1:5 3:7\n", "3 2[0,1]: 0 1:5", NULL, XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_ZERO},
    {"0 1:5 2:7\n", "3 2[0,1]: 0 1:5 2:7", NULL, XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_ZERO},
    {"0 0:5 2:7\n", NULL, "feature indexes start at 1 here", XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_ONE},
    {"0 1:5 3:7\n", "3 2[0,1]: 0 0:5 2:7", NULL, XSM_INDEX_BASE_ONE, XSM_INDEX_BASE_AUTO},
    {"0 1:5 3:7\n", NULL, "1 is accepted, or none", XSM_INDEX_BASE_ONE, XSM_INDEX_BASE_ZERO},
    {"0 1:5 2:7\n", "3 2[0,1]: 0 0:5 1:7", "no feature has the index 0", XSM_INDEX_BASE_AUTO, XSM_INDEX_BASE_AUTO},
    {"0 1:5 2:7\n", "3 2[0,1]: 0 1:5 2:7", NULL, XSM_INDEX_BASE_AUTO, XSM_INDEX_BASE_ZERO},
    {"0\n", "3 2[0,1]: 0", NULL, XSM_INDEX_BASE_ZERO, XSM_INDEX_BASE_AUTO},
};

TEST(bases_are_said)
{
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        notes n = "";
        char text[400];
        HELD(xsm_context, context) = noting(n);
        HELD(xsm_dataset, d) = NULL;
        xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
        map.classes = 2;
        map.features = 3;
        map.index_base = counted[i].base;
        const xsm_read_options options =
            OPTIONS(.classes = &map, .index_base = counted[i].given, .format = XSM_FORMAT_LIBSVM);
        const xsm_status status = read_bytes(context, counted[i].text, strlen(counted[i].text), 0, &options, &d, &err);
        if ((status == XSM_OK) != (counted[i].expected != NULL)) {
            fail_msg("case %zu: %s", i, err.message);
        }
        if (d) {
            describe(d, text, sizeof text);
            assert_string_equal(text, counted[i].expected);
            assert_ok(xsm_dataset_get_class_map(d, &own, &err), err);
            assert_true(map.index_base == XSM_INDEX_BASE_AUTO || own.index_base == map.index_base);
        }
        const char *said = d ? n : err.message;
        if (counted[i].says ? !strstr(said, counted[i].says) : said[0] != '\0') {
            fail_msg("case %zu: '%s'", i, said);
        }
    }
}

/* The columns of a class map are found by their names, which may be numbers. */
TEST(names_that_are_numbers)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    const xsm_read_options as_names = OPTIONS(.label_column = "2021", .header = XSM_HEADER_YES);
    MADE(xsm_dataset, made, read_bytes(NULL, TEXT("2019,2020,2021\n1,2,a\n3,4,b\n"), 0, &as_names, &made, &err));
    assert_ok(xsm_dataset_get_class_map(made, &map, &err), err);
    const xsm_read_options options = OPTIONS(.classes = &map);
    MADE(xsm_dataset, d, read_bytes(NULL, TEXT("2020,2019\n20,10\n"), 0, &options, &d, &err));
    assert_int_equal(d->rows, 1);
    assert_true(d->values[0] == 10 && d->values[1] == 20);
}

/* Against a class map of one feature. */
TEST(one_column_is_a_table)
{
    static const char *const name[] = {"x"}, *const other[] = {"y"};
    static const struct {
        const char *text, *expected; /* or a part of the message */
        const char *const *names;
    } tables[] = {
        {"5\n-6\n", "1 2[0,1]:  5;  -6", NULL},
        {"1.5\n7\n", "1 2[0,1]:  1.5;  7", NULL},
        {"5\n\n7.5\n", "1 2[0,1]:  5;  0;  7.5", NULL},
        {"x\n5\n6\n", "1 2[0,1]:  5;  6", name},
        {" x \r\n5\r\n", "1 2[0,1]:  5", name},
        {"5\n6\n", "1 2[0,1]:  5;  6", name},
        {"x\n5\n", "cannot be recognised from 'x'", other},
        {"five\n", "cannot be recognised", NULL},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        map.classes = 2;
        map.features = 1;
        map.feature_names = tables[i].names;
        map.feature_name_count = tables[i].names != NULL;
        const xsm_read_options options = OPTIONS(.classes = &map);
        const good rows = {tables[i].text, strlen(tables[i].text), tables[i].expected,
                           tables[i].text[0] == '5' || tables[i].text[0] == '1' ? "is read as a row" : NULL, AUTO};
        check_file(&rows, i, 0, &options, i < 6 ? XSM_OK : XSM_ERROR_FORMAT);
    }
}

/* Between tabs a quote that nothing closes in its field is text, and each line is a row. */
TEST(quotes_between_tabs)
{
    static const struct table {
        const char *text, *labels[4], *says;
    } tables[] = {
        {"x\tlabel\n1\t\"a\n2\tb\" \n3\t\"c\n", {"\"a", "\"c", "b\""}, NULL},
        {"x\tlabel\n1\t\"a\" b\n2\t\"a\tb\"\n3\t \"a\"\"b\" \n", {"\"a\" b", "a\tb", "a\"b"}, NULL},
        {"\"x\"\t\"label\"\n1\t\"\"\"a\n", {"\"\"\"a"}, NULL},
        {"label\tx\n\"a\nb\"\t1\n",
         {NULL},
         "line 2, column 3: 1 fields; the header line has 2; between tabs a field ends"},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        HELD(xsm_dataset, d) = NULL;
        const xsm_status status = read_bytes(NULL, tables[i].text, strlen(tables[i].text), 0, NULL, &d, &err);
        if (tables[i].says) {
            assert_int_equal(status, XSM_ERROR_FORMAT);
            assert_non_null(strstr(err.message, tables[i].says));
            continue;
        }
        assert_int_equal(status, XSM_OK);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_int_equal(xsm_dataset_get_class_map(d, &map, &err), XSM_OK);
        for (uint32_t k = 0; k < map.classes; k++) {
            assert_string_equal(map.names[k], tables[i].labels[k]);
        }
        assert_null(tables[i].labels[map.classes]);
    }
}

/* Labels are as they are written, but a whole number is one label, however floats are printed. */
TEST(spellings_of_numbers)
{
    const int64_t numbers[] = {1, 2};
    const char *const names[] = {"3.0", "4"};
    static const struct table {
        const char *text, *expected;
        int map;
    } tables[] = {
        {"x,label\n1,1e3\n2,1000\n3,12e4\n", "1 3[1000,12e4,1e3]: 2 1; 0 2; 1 3", 0},
        {"x,label\n1,1.0\n2,1\n3,2.0\n", "1 2[1,2]: 0 1; 0 2; 1 3", 0},
        {"x,label\n1,1.0\n2,1.10\n3,oth\n", "1 3[1.0,1.10,oth]: 0 1; 1 2; 2 3", 0},
        {"x,label\n1,2.0\n2,2\n3,oth\n4,2.000000000000000000e+00\n", "1 2[2.0,oth]: 0 1; 0 2; 1 3; 0 4", 0},
        {"x,label\n1,1.0\n2,2.0e+00\n3,oth\n", "1 2[1,2]: 0 1; 1 2; ? 3", 1},
        {"x,label\n1,3\n2,4.0\n3,x\n4,3.00\n5,04\n", "1 2[3.0,4]: 0 1; 1 2; ? 3; 0 4; ? 5", 3},
        {"x,label\n1,1.200000000000000000e+01\n2,-1.0e+00\n3,5.0e-01\n",
         "1 3[-1.0e+00,1.200000000000000000e+01,5.0e-01]: 1 1; 0 2; 2 3", 0},
        {"x,label\n1,1.200000000000000000e+01\n2,-1.0e+00\n", "1 2[-1,12]: 1 1; 0 2", 0},
        {"x,label\n1,1.0\n2,oth\n3,2.00\n4,2\n5,01.0\n6,.0\n7,1e0\n8,-0.0\n",
         "1 7[1,2,-0.0,.0,01.0,1e0,oth]: 0 1; 6 2; 1 3; 1 4; 4 5; 3 6; 5 7; 2 8", 2},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        map.classes = 2;
        map.labels = tables[i].map < 3 ? numbers : NULL;
        map.names = tables[i].map < 3 ? NULL : names;
        map.features = 1;
        const xsm_read_options options =
            OPTIONS(.classes = tables[i].map ? &map : NULL, .new_labels = tables[i].map == 2);
        check_file(&(good){tables[i].text, strlen(tables[i].text), tables[i].expected, NULL, AUTO}, i, 0, &options,
                   XSM_OK);
    }
}
