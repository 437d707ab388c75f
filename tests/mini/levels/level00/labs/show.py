def main(arguments):
    print('shown', arguments)
